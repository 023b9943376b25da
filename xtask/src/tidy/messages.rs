//! The program's messages: their words are checked, and a table of all of them is made to be read (`target/messages.md`).
//!
//! Messages are found in the sources of the product, so that none can be left out: the texts of typed errors (`#[error]`),
//! and each text of two words or more that the code can hand on. Texts that only a report, a log or a panic has are none.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::dependencies::TESTKIT;
use super::names::is_test_module;
use super::tokens;
use crate::Failure;
use crate::report::Offence;
use crate::workspace::{File, Workspace};

/// The table.
pub(crate) const PAGE: &str = "target/messages.md";

/// The text above the table.
const HEAD: &str = "# Messages\n\n\
    Each text that the program can fail or refuse with, by crate, as the source has it; `{...}` stands for a name or a number.\n\
    `cargo xtask messages` writes this page. A message names the thing, the cause and the way out. Some are parts that are put together: the program begins with the device, file or flag that is meant.\n\
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

/// Most words of a message's part: the thing, the cause or the way out.
const MOST_WORDS: usize = 32;

/// Words with which no message begins: they hide the thing that it speaks of.
const PRONOUNS: [&str; 9] =
    ["anybody", "nobody", "somebody", "them", "those", "what", "who", "whoever", "whom"];

/// Checks the words of each message.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let mut offences = Vec::new();
    for (_, file) in sources(workspace) {
        let mut texts = Texts::default();
        collect(tokens::parse(file)?, false, &mut texts);
        let errors = texts.errors.iter().map(|text| (text, true));
        for (text, fails) in errors.chain(texts.others.iter().map(|text| (text, false))) {
            offences.extend(fault(text, fails).map(|what| Offence {
                file: file.path.clone(),
                line: line_of(file, text),
                rule: "messages",
                what: format!("\"{text}\" {what}"),
                way_out: "name the thing, the cause and the way out, in words of their own".to_owned(),
            }));
        }
    }
    Ok(offences)
}

/// The fault of a message's words, if they have one. Errors are parts of a line, which begins with the program's name.
fn fault(text: &str, fails: bool) -> Option<String> {
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
    let clauses = text.split_inclusive([';', ':', '.']).map(|clause| clause.split_whitespace().count());
    let longest = clauses.max().unwrap_or_default();
    if fails && PRONOUNS.contains(&first.as_str()) {
        Some(format!("begins with '{first}'"))
    } else if longest > MOST_WORDS {
        Some(format!("has {longest} words up to a : or ;, {MOST_WORDS} at most"))
    } else if fails && text.trim_end_matches('.').ends_with(char::is_alphanumeric) && text.ends_with('.') {
        Some("ends with a full stop".to_owned())
    } else if text.ends_with('!') {
        Some("shouts".to_owned())
    } else {
        None
    }
}

/// The line in which a text begins, as far as its first words tell.
fn line_of(file: &File, text: &str) -> usize {
    let begin: String = text.chars().take(16).collect();
    file.text.lines().position(|line| line.contains(&begin)).map_or(0, |at| at + 1)
}

/// The sources of the product, each with the name of its crate.
fn sources(workspace: &Workspace) -> impl Iterator<Item = (&str, &File)> {
    let crates = workspace.crates.iter().filter(|of| of.dir.starts_with("crates") && of.name != TESTKIT);
    crates.flat_map(|of| {
        let name = of.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_own = move |file: &&File| {
            let inside = file.path.strip_prefix(&of.dir).ok();
            inside.is_some_and(|path| path.starts_with("src") && !is_test_module(path))
        };
        workspace.files.iter().filter(|file| file.is_rust()).filter(is_own).map(move |file| (name, file))
    })
}

/// The page.
///
/// # Errors
/// A file that is not Rust.
pub(crate) fn table(workspace: &Workspace) -> Result<String, Failure> {
    let mut by_crate: BTreeMap<&str, Texts> = BTreeMap::new();
    for (name, file) in sources(workspace) {
        collect(tokens::parse(file)?, false, by_crate.entry(name).or_default());
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
    fn words_that_hide_the_thing_are_refused() {
        let found = |message: &str| {
            let source = format!("#[error({message:?})]\nstruct Lacks;");
            let offences = check(&with_files(&[("crates/io/src/lib.rs", &source)])).expect("Rust");
            offences.into_iter().map(|offence| (offence.line, offence.what)).collect::<Vec<_>>()
        };
        assert_eq!(found("{file}: it lacks a member: give all of them"), []);
        for (message, fault) in [
            ("whoever has it open", "begins with 'whoever'"),
            ("what was sent is no request", "begins with 'what'"),
            ("{file}: it lacks a member.", "ends with a full stop"),
            ("it is gone for good!", "shouts"),
        ] {
            assert_eq!(found(message), [(1, format!("\"{message}\" {fault}"))]);
        }
        let long = format!("a{}", " word".repeat(41));
        assert!(found(&long)[0].1.ends_with("has 42 words up to a : or ;, 32 at most"), "{:?}", found(&long));
    }
}
