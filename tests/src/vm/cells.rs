//! The program that counts the bytes that md moves of its members.

use std::process::Command;

use crate::tools::{self, Missing};

/// Its source.
const SOURCE: &str = include_str!("cells.c");

/// Compiles it, with no library that the machine would lack.
///
/// # Errors
/// There is no compiler of C.
///
/// # Panics
/// If the compiler refuses it.
pub(super) fn program() -> Result<Vec<u8>, Missing> {
    let compiler = tools::find("cc")?;
    let folder = tempfile::tempdir().expect("a folder for the program");
    let (source, program) = (folder.path().join("cells.c"), folder.path().join("cells"));
    std::fs::write(&source, SOURCE).expect("the source is written");
    let compiled = Command::new(compiler).args(["-static", "-O1", "-o"]).args([&program, &source]).output();
    let compiled = compiled.expect("the compiler starts");
    assert!(compiled.status.success(), "cells.c: {}", String::from_utf8_lossy(&compiled.stderr));
    Ok(std::fs::read(&program).expect("the program was written"))
}
