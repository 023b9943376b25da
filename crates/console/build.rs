//! Compresses the files of pages, which go into the program as browsers get them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The folder with files of pages.
const FOLDER: &str = "assets";

/// Files of others.
const FOREIGN: [&str; 2] = ["../lab/vendor/uPlot.iife.min.js", "../lab/vendor/uPlot.min.css"];

fn main() -> io::Result<()> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    println!("cargo::rerun-if-changed={FOLDER}");
    for entry in fs::read_dir(FOLDER)? {
        pack(&entry?.path(), &out)?;
    }
    FOREIGN.iter().try_for_each(|file| {
        println!("cargo::rerun-if-changed={file}");
        pack(Path::new(file), &out)
    })
}

/// The file as `NAME.gz`: the same bits whenever and by whomever it is made.
fn pack(file: &Path, out: &Path) -> io::Result<()> {
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let mut into = GzEncoder::new(Vec::new(), Compression::best());
    into.write_all(&fs::read(file)?)?;
    fs::write(out.join(format!("{name}.gz")), into.finish()?)
}
