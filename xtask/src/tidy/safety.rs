//! Each `unsafe` block and implementation says why it is sound.
//!
//! clippy checks the same (`undocumented_unsafe_blocks`) but not inside macros, where most SIMD kernels live.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens;
use crate::Failure;
use crate::report::Offence;
use crate::workspace::{File, Workspace};

/// Lines of code that may stand between the comment and `unsafe`: the head of the statement that holds it.
const HEAD_LINES: usize = 3;

/// Checks that a `SAFETY:` comment stands at each `unsafe {` and `unsafe impl`.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let mut offences = Vec::new();
    for file in workspace.files.iter().filter(|f| f.is_rust()) {
        offences.extend(check_file(file)?);
    }
    Ok(offences)
}

fn check_file(file: &File) -> Result<Vec<Offence>, Failure> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut places = Vec::new();
    places_of_unsafe(tokens::parse(file)?, &mut places);
    places.retain(|&line| !is_explained(&lines, line));
    Ok(places
        .into_iter()
        .map(|line| Offence {
            file: file.path.clone(),
            line,
            rule: "safety",
            what: "`unsafe` without a reason".to_owned(),
            way_out: "write `// SAFETY:` above it and say what makes it sound".to_owned(),
        })
        .collect())
}

/// Lines of `unsafe` that opens a block or an implementation; `unsafe fn` puts the burden on its caller instead.
fn places_of_unsafe(tokens: TokenStream, places: &mut Vec<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "unsafe" => match tokens.peek() {
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    places.push(word.span().start().line);
                }
                Some(TokenTree::Ident(next)) if next == "impl" => places.push(word.span().start().line),
                _ => {}
            },
            TokenTree::Group(group) => places_of_unsafe(group.stream(), places),
            _ => {}
        }
    }
}

fn is_explained(lines: &[&str], line: usize) -> bool {
    let mut code = 0;
    for text in lines[..line].iter().rev() {
        if text.contains("SAFETY:") {
            return true;
        }
        let trimmed = text.trim_start();
        if !(trimmed.starts_with("//") || trimmed.starts_with("#[")) {
            code += 1;
        }
        if code > HEAD_LINES {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        let file = File { path: "x.rs".into(), text: source.to_owned() };
        check_file(&file).expect("Rust").into_iter().map(|o| o.line).collect()
    }

    #[test]
    fn a_block_without_a_reason_is_refused() {
        assert_eq!(lines("fn f() {\n    unsafe { g() }\n}"), [2]);
        assert_eq!(lines("unsafe impl Send for X {}"), [1]);
        assert_eq!(lines("macro_rules! m { () => {\n unsafe { g() } } }"), [2]);
        assert_eq!(lines("// SAFETY: far away\nlet a;\nlet b;\nlet c;\nlet d;\nunsafe { g() }"), [6]);
    }

    #[test]
    fn a_block_with_a_reason_passes() {
        assert!(
            lines("fn f() {\n    // SAFETY: g has no preconditions here.\n    unsafe { g() }\n}").is_empty()
        );
        assert!(lines("// SAFETY: two\n// lines\n#[inline]\nlet x =\n    unsafe { g() };").is_empty());
        assert!(lines("unsafe { g() } // SAFETY: same line").is_empty());
    }

    #[test]
    fn an_unsafe_function_is_for_its_caller_to_explain() {
        assert!(lines("unsafe fn f() {}\nunsafe extern \"C\" {}").is_empty());
    }
}
