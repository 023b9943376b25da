//! A comment names the thing that it speaks of. A sentence that begins with a relative clause ("What a bit stands for ...")
//! names none, so that its reader has to find out first which thing is meant.

use crate::report::Offence;
use crate::workspace::Workspace;

/// Words that no line of a comment begins with.
const RELATIVE: [&str; 5] = ["What", "Who", "Whoever", "Whom", "Whose"];

/// Checks every line of the comments in Rust source.
pub(super) fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in workspace.files.iter().filter(|file| file.is_rust()) {
        for (line, text) in (1..).zip(file.text.lines()) {
            let Some(word) = first_word(text).filter(|word| RELATIVE.contains(word)) else { continue };
            offences.push(Offence {
                file: file.path.clone(),
                line,
                rule: "comments",
                what: format!("a sentence of the comment begins with {word}"),
                way_out: "begin it with the name of the thing that it speaks of".to_owned(),
            });
        }
    }
    offences
}

/// The first word of a line that is a comment and nothing else.
fn first_word(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    let text = comment.strip_prefix(['/', '!']).unwrap_or(comment).strip_prefix(' ')?;
    text.split(|c: char| !c.is_alphanumeric()).next()
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&with_files(&[(path, text)])).into_iter().map(|offence| offence.line).collect()
    }

    #[test]
    fn comments_that_begin_with_a_relative_clause_are_refused() {
        for word in RELATIVE {
            let text =
                format!("//! {word} it is.\n\n/// {word} it is.\nfn a() {{\n    // {word}, then.\n}}\n");
            assert_eq!(lines("crates/io/src/a.rs", &text), [1, 3, 5], "{word}");
        }
    }

    #[test]
    fn other_comments_pass() {
        let text = "/// The member whose turn it is.\n// Whole rows.\n//What\nlet a = 1; // What\n\"What\"\n/// what\n";
        assert_eq!(lines("crates/io/src/a.rs", text), [0; 0]);
        assert_eq!(lines("docs/a.md", "// What\n"), [0; 0]);
    }
}
