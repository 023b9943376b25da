//! A sentence of a comment or a document has 40 words at most: who reads a longer one has lost its beginning at its end.

use crate::report::Offence;
use crate::workspace::{File, Workspace};

/// Most words of a sentence.
const MOST_WORDS: usize = 40;

/// Names that begin a sentence though they are small.
const SMALL: [&str; 2] = ["md", "mdadm"];

/// Checks the comments of Rust source, and all documents.
pub(super) fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in &workspace.files {
        for (line, text) in paragraphs(file) {
            for words in lengths(&text).into_iter().filter(|words| *words > MOST_WORDS) {
                offences.push(Offence {
                    file: file.path.clone(),
                    line,
                    rule: "sentences",
                    what: format!("a sentence of this paragraph has {words} words, {MOST_WORDS} at most"),
                    way_out: "say one idea a sentence, or make a list or a table of it".to_owned(),
                });
            }
        }
    }
    offences
}

/// The paragraphs of a file's prose, each with the line where it begins. Tables, headings and code are none.
fn paragraphs(file: &File) -> Vec<(usize, String)> {
    let is_page = file.path.extension().is_some_and(|kind| kind == "md");
    let prose = |line: &str| -> Option<String> {
        if is_page {
            return Some(line.to_owned());
        }
        let comment = line.trim_start().strip_prefix("//")?;
        Some(comment.strip_prefix(['/', '!']).unwrap_or(comment).to_owned())
    };
    let mut all: Vec<(usize, String)> = Vec::new();
    let (mut code, mut open) = (false, false);
    for (number, line) in (1..).zip(file.text.lines()).filter(|_| is_page || file.is_rust()) {
        let Some(text) = prose(line) else {
            (code, open) = (false, false);
            continue;
        };
        let words = text.trim();
        if words.starts_with("```") {
            (code, open) = (!code, false);
        } else if code
            || words.is_empty()
            || words.starts_with(['|', '#', '<'])
            || !open && is_code(&text, is_page)
        {
            open = false;
        } else {
            let item = item(words);
            match all.last_mut().filter(|_| open && item.is_none()) {
                Some((_, paragraph)) => *paragraph += &format!(" {words}"),
                None => all.push((number, item.unwrap_or(words).to_owned())),
            }
            open = true;
        }
    }
    all
}

/// Whether a line outside of a paragraph is code by its indent.
fn is_code(text: &str, is_page: bool) -> bool {
    text.starts_with(if is_page { "    " } else { "     " })
}

/// The text of an item of a list.
fn item(words: &str) -> Option<&str> {
    let (mark, text) = words.split_once(' ')?;
    let number = mark.strip_suffix('.').is_some_and(|mark| mark.parse::<u8>().is_ok());
    (number || mark == "-" || mark == "*").then_some(text)
}

/// How many words each sentence of a paragraph has.
fn lengths(paragraph: &str) -> Vec<usize> {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let begins = |at: usize| {
        let ends_before = words[at - 1].ends_with(['.', '!', '?']);
        let first = words[at].chars().next();
        ends_before && (first.is_some_and(|first| !first.is_lowercase()) || SMALL.contains(&words[at]))
    };
    let mut starts: Vec<usize> = vec![0];
    starts.extend((1..words.len()).filter(|at| begins(*at)));
    starts.push(words.len());
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&with_files(&[(path, text)])).into_iter().map(|offence| offence.line).collect()
    }

    fn words(count: usize) -> String {
        vec!["word"; count].join(" ")
    }

    #[test]
    fn a_long_sentence_is_refused_wherever_its_lines_end() {
        let (half, rest) = (words(20), words(21));
        for (path, mark) in
            [("crates/io/src/a.rs", "/// "), ("crates/io/src/a.rs", "    // "), ("docs/a.md", "")]
        {
            assert_eq!(lines(path, &format!("{mark}{half}\n{mark}{rest}.\n")), [1], "{path} {mark}");
            assert_eq!(lines(path, &format!("{mark}{half}.\n{mark}A {rest}.\n")), [0; 0], "{path} {mark}");
            assert_eq!(lines(path, &format!("{mark}{half}.\n{mark}md {rest}.\n")), [0; 0], "{path} {mark}");
        }
    }

    #[test]
    fn lists_tables_and_code_are_no_sentence() {
        let (half, long) = (words(20), words(41));
        let text =
            format!("- {half}\n- {half}\n1. {half}\n\n| {long} |\n# {long}\n```\n{long}\n```\n    {long}\n");
        assert_eq!(lines("docs/a.md", &text), [0; 0]);
        assert_eq!(lines("docs/a.md", &format!("- {long}\n")), [1]);
        assert_eq!(lines("crates/io/src/a.rs", &format!("let a = \"{long}\"; // {long}\n")), [0; 0]);
    }
}
