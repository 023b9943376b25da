//! Names that Rust source uses, found among its tokens: comments and strings never match, grouped imports do.

use std::iter::Peekable;

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream};

use crate::Failure;
use crate::workspace::File;

/// A path such as `std::fs::read` (or a lone identifier) and the line where it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Segments of the path, first to last.
    pub(super) segments: Vec<String>,
    /// Line, from 1.
    pub(super) line: usize,
}

/// Cuts a file into tokens.
///
/// # Errors
/// Names the file and line that is not Rust.
pub(super) fn parse(file: &File) -> Result<TokenStream, Failure> {
    file.text.parse().map_err(|e: proc_macro2::LexError| {
        format!("{}:{}: {e}", file.path.display(), e.span().start().line).into()
    })
}

/// Every name in `tokens` outside items that only tests are built with (`#[cfg(test)]`).
pub(super) fn names(tokens: TokenStream) -> Vec<Name> {
    let mut found = Vec::new();
    walk(tokens, &[], &mut found);
    found
}

type Tokens = Peekable<token_stream::IntoIter>;

fn walk(tokens: TokenStream, prefix: &[String], found: &mut Vec<Name>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(first) => {
                let line = first.span().start().line;
                let mut segments = prefix.to_vec();
                segments.push(first.to_string());
                path(&mut tokens, &mut segments, found);
                found.push(Name { segments, line });
            }
            TokenTree::Group(group) => walk(group.stream(), &[], found),
            TokenTree::Punct(p) if p.as_char() == '#' && attribute_is_test(&mut tokens) => {
                skip_item(&mut tokens);
            }
            _ => {}
        }
    }
}

/// Extends `segments` with what follows after each `::`, and goes into `{...}` of a grouped import.
fn path(tokens: &mut Tokens, segments: &mut Vec<String>, found: &mut Vec<Name>) {
    while eat_colons(tokens) {
        match tokens.peek() {
            Some(TokenTree::Ident(next)) => {
                segments.push(next.to_string());
                tokens.next();
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                walk(group.stream(), segments, found);
                tokens.next();
                return;
            }
            _ => return,
        }
    }
}

/// Consumes `::` if it comes next. A single `:` (a type follows) may be consumed too: no name is lost by that.
fn eat_colons(tokens: &mut Tokens) -> bool {
    let mut colons = 0;
    while colons < 2 && matches!(tokens.peek(), Some(TokenTree::Punct(p)) if p.as_char() == ':') {
        tokens.next();
        colons += 1;
    }
    colons == 2
}

/// Consumes an attribute if it comes next and tells whether it is `#[cfg(test)]` or `#[cfg(all(test, ...))]`.
fn attribute_is_test(tokens: &mut Tokens) -> bool {
    if matches!(tokens.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '!') {
        tokens.next();
    }
    let Some(TokenTree::Group(group)) = tokens.peek() else { return false };
    let text: String = group.stream().to_string().split_whitespace().collect();
    let test = text == "cfg(test)" || text.starts_with("cfg(all(test,");
    if test {
        tokens.next();
    }
    test
}

/// Skips to the end of an item: its block or its semicolon.
fn skip_item(tokens: &mut Tokens) {
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(p) if p.as_char() == ';' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(String, usize)> {
        let tokens = source.parse().expect("Rust");
        names(tokens).into_iter().map(|n| (n.segments.join("::"), n.line)).collect()
    }

    fn has(source: &str, path: &str) -> bool {
        found(source).iter().any(|(p, _)| p == path)
    }

    #[test]
    fn paths_are_found_however_they_are_imported() {
        assert!(has("use std::fs;", "std::fs"));
        assert!(has("use std::{io, fs::{self, File}};", "std::fs::File"));
        assert!(has("fn f() { ::std::fs::read(x); }", "std::fs::read"));
        assert!(has("struct S { at: Vec<std::time::Instant> }", "std::time::Instant"));
        assert!(has("fn f(m: HashMap<u8, u8>) {}", "HashMap"));
    }

    #[test]
    fn comments_strings_and_tests_are_left_out() {
        assert!(!has("// std::fs\nconst S: &str = \"std::fs\";", "std::fs"));
        assert!(!has("#[cfg(test)] mod tests { use std::fs; }", "std::fs"));
        assert!(!has("#[cfg(all(test, unix))]\nuse std::fs;\n", "std::fs"));
        assert!(has("#[cfg(test)] use a::b;\nuse std::fs;", "std::fs"));
        assert!(has("#[cfg(not(test))] use std::fs;", "std::fs"));
    }

    #[test]
    fn lines_count_from_one() {
        assert!(found("\n\nuse a::b;").contains(&("a::b".to_owned(), 3)));
    }
}
