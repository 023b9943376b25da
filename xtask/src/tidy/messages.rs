//! The table of the program's messages (`docs/messages.md`): a change of a message shows there, to be read beside all others.
//!
//! Messages are found in the sources of the product, so that none can be left out: the texts of typed errors (`#[error]`),
//! and each text of two words or more that the code can hand on. Texts that only a report, a log or a panic has are none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::dependencies::TESTKIT;
use super::names::is_test_module;
use super::tokens;
use crate::Failure;
use crate::report::Offence;
use crate::workspace::Workspace;

/// The table.
pub(crate) const PAGE: &str = "docs/messages.md";

/// The text above the table.
const HEAD: &str = "# Messages\n\n\
    Each text that the program can fail or refuse with, by crate, as the source has it; `{...}` stands for a name or a number.\n\
    `cargo xtask messages` writes this page, and `cargo xtask tidy` holds the sources to it. A message names the thing, the cause\n\
    and the way out. Some are parts that are put together: the program begins with the device, file or flag that is meant.\n\
    \"Other texts\" are those that code hands on otherwise: reasons, steps and labels, of which many are parts of a message, too.\n";

/// Macros whose texts are for a report, a log or a panic.
const REPORTS: [&str; 21] = [
    "write",
    "writeln",
    "print",
    "println",
    "eprint",
    "eprintln",
    "json",
    "panic",
    "unreachable",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "debug",
    "info",
    "warn",
    "error",
    "trace",
    "env",
];

/// Calls and patterns to whose arguments errors are handed.
const FAILURES: [&str; 7] = ["Failure", "Err", "Refused", "ok_or", "ok_or_else", "map_err", "bail"];

/// Texts of a crate.
#[derive(Default)]
struct Texts {
    /// Texts of its errors.
    errors: BTreeSet<String>,
    /// All others that are handed on.
    others: BTreeSet<String>,
}

/// Checks that the table has the messages that exist; a workspace without it has nothing to check.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let Some(page) = workspace.files.iter().find(|file| file.path == Path::new(PAGE)) else {
        return Ok(Vec::new());
    };
    let table = table(workspace)?;
    let wrong = page.text.lines().zip(table.lines()).position(|(is, should)| is != should);
    let wrong =
        wrong.or_else(|| (page.text != table).then(|| page.text.lines().count().min(table.lines().count())));
    Ok(wrong
        .map(|line| Offence {
            file: PAGE.into(),
            line: line + 1,
            rule: "messages",
            what: format!("the code says \"{}\" here", table.lines().nth(line).unwrap_or_default()),
            way_out: "run cargo xtask messages, and read what it changes: thing, cause, way out".to_owned(),
        })
        .into_iter()
        .collect())
}

/// The page as it should be.
///
/// # Errors
/// A file that is not Rust.
pub(crate) fn table(workspace: &Workspace) -> Result<String, Failure> {
    let mut by_crate: BTreeMap<&str, Texts> = BTreeMap::new();
    for member in workspace.crates.iter().filter(|of| of.dir.starts_with("crates") && of.name != TESTKIT) {
        let texts = by_crate
            .entry(member.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default())
            .or_default();
        for file in workspace.files.iter().filter(|file| file.is_rust()) {
            let inside = file
                .path
                .strip_prefix(&member.dir)
                .ok()
                .filter(|path| path.starts_with("src") && !is_test_module(path));
            if inside.is_some() {
                collect(tokens::parse(file)?, false, texts);
            }
        }
    }
    let mut page = HEAD.to_owned();
    for (name, texts) in by_crate {
        let others: BTreeSet<String> = texts.others.difference(&texts.errors).cloned().collect();
        for (kind, texts) in [("errors", texts.errors), ("other texts", others)] {
            if !texts.is_empty() {
                page += &format!("\n## {name}: {kind}\n\n");
                page.extend(texts.iter().map(|text| format!("- {text}\n")));
            }
        }
    }
    Ok(page)
}

/// Collects the texts among tokens, which are arguments of a failure or not.
fn collect(tokens: TokenStream, failing: bool, texts: &mut Texts) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    // The path that stands before a group is that of the call whose arguments it has.
    let mut path_fails = false;
    while at < tokens.len() {
        match &tokens[at..] {
            [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] if hash.as_char() == '#' => {
                at += 1;
                if is_for_tests(attribute) {
                    at += tokens[at..].iter().position(ends_item).unwrap_or(tokens.len());
                } else if is_error(attribute) {
                    collect(attribute.stream(), true, texts);
                }
            }
            // Documentation of the whole module.
            [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(_), ..]
                if hash.as_char() == '#' && bang.as_char() == '!' =>
            {
                at += 2;
            }
            [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(_), ..]
                if bang.as_char() == '!' && REPORTS.contains(&name.to_string().as_str()) =>
            {
                at += 2;
            }
            [TokenTree::Ident(name), TokenTree::Group(_), ..] if name == "expect" => at += 1,
            [TokenTree::Ident(name), ..] => path_fails |= FAILURES.contains(&name.to_string().as_str()),
            [TokenTree::Punct(punct), ..] => path_fails &= [':', '!'].contains(&punct.as_char()),
            [TokenTree::Group(group), ..] => {
                collect(group.stream(), failing || path_fails, texts);
                path_fails = false;
            }
            [TokenTree::Literal(literal), ..] => {
                let kind = if failing { &mut texts.errors } else { &mut texts.others };
                kind.extend(text(&literal.to_string()));
            }
            [] => {}
        }
        at += 1;
    }
}

fn is_for_tests(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

fn is_error(attribute: &Group) -> bool {
    matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "error")
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}

/// The text of a string literal, in one line, if it has two words and is not a line of a report or page.
fn text(literal: &str) -> Option<String> {
    let inside = literal.strip_prefix('"')?.strip_suffix('"')?;
    let is_line = inside.ends_with("\\n") || inside.starts_with("  ") || inside.starts_with('<');
    let lines = inside.split("\\\n").enumerate();
    let text: String = lines.map(|(at, line)| if at == 0 { line } else { line.trim_start() }).collect();
    let is_word = |word: &&str| word.chars().filter(char::is_ascii_lowercase).count() > 1;
    let words = text.split_whitespace().filter(is_word).count();
    (words > 1 && !is_line).then(|| text.trim().replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    const SOURCE: &str = r##"
        //! A module with words.
        /// An error with words.
        #[error("{label} lacks a {what}: \
                 name \"one\"")]
        struct Lacks;
        fn refuse(out: &mut Out) -> Result<(), Failure> {
            writeln!(out, "a report of many words");
            some.expect("a panic of many words");
            let why = "it is of another array";
            two("  a line of a report");
            if bad { return Err(Failure::Usage(format!("--size {size}: it is too small"))) }
            one("single", 3)
        }
        #[cfg(test)]
        mod tests { const TEXT: &str = "a text of a test"; }
    "##;

    fn page() -> String {
        let test = ("crates/io/src/tests.rs", "const A: &str = \"a text of a test\";");
        table(&with_files(&[("crates/io/src/lib.rs", SOURCE), test])).expect("Rust")
    }

    #[test]
    fn each_text_that_is_handed_on_is_in_the_table() {
        let expected = "\n## io: errors\n\n- --size {size}: it is too small\n- {label} lacks a {what}: name \"one\"\n\
                        \n## io: other texts\n\n- it is of another array\n";
        assert_eq!(page().strip_prefix(HEAD), Some(expected));
    }

    #[test]
    fn a_page_that_lacks_a_message_or_has_an_old_one_is_refused() {
        let found = |page: &str| {
            let workspace = with_files(&[("crates/io/src/lib.rs", SOURCE), (PAGE, page)]);
            check(&workspace).expect("Rust").into_iter().map(|offence| offence.line).collect::<Vec<_>>()
        };
        let sound = page();
        assert_eq!(found(&sound), [0; 0]);
        let line = sound.lines().position(|line| line.contains("too small")).expect("there") + 1;
        assert_eq!(found(&sound.replace("too small", "small")), [line]);
        assert_eq!(found(&sound.replace("- it is of another array\n", "")), [sound.lines().count()]);
        assert_eq!(found(&format!("{sound}- one more\n")), [sound.lines().count() + 1]);
    }
}
