//! Man pages and completions, from the definitions in `cli`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;

use crate::cli::{Cli, Completions, Man};
use crate::failure::Failure;

pub(crate) fn completions(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "brindle", &mut script);
    io::stdout().write_all(&script).map_err(|source| Failure::output("standard output", source))
}

pub(crate) fn man(args: &Man) -> Result<(), Failure> {
    let folder = &args.folder;
    fs::create_dir_all(folder).map_err(|source| Failure::output(folder.display(), source))?;
    let mut command = Cli::command();
    command.build();
    page(folder, "brindle", &command)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("brindle-{}", sub.get_name());
        page(folder, &name, sub)?;
        for below in sub.get_subcommands().filter(|below| below.get_name() != "help") {
            page(folder, &format!("{name}-{}", below.get_name()), below)?;
        }
    }
    Ok(())
}

fn page(folder: &Path, name: &str, command: &clap::Command) -> Result<(), Failure> {
    let path = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name)
        .render(&mut text)
        .and_then(|()| fs::write(&path, text))
        .map_err(|source| Failure::output(path.display(), source))
}
