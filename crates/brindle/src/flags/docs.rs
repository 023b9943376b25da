//! Man pages and completions, from the definitions in `cli`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::base::failure::Failure;
use crate::flags::cli::{self, Completions, Man};

pub(crate) fn completions(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "brindle", &mut script);
    io::stdout().write_all(&script).map_err(|source| Failure::output("standard output", source))
}

pub(crate) fn man(args: &Man) -> Result<(), Failure> {
    let folder = &args.folder;
    fs::create_dir_all(folder).map_err(|source| Failure::output(folder.display(), source))?;
    let mut command = cli::command();
    command.build();
    page(folder, "brindle", None, &command)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("brindle-{}", sub.get_name());
        page(folder, &name, Some(sub.get_name()), sub)?;
        for below in sub.get_subcommands().filter(|below| below.get_name() != "help") {
            page(folder, &format!("{name}-{}", below.get_name()), None, below)?;
        }
    }
    Ok(())
}

fn page(folder: &Path, title: &str, name: Option<&str>, command: &clap::Command) -> Result<(), Failure> {
    let path = folder.join(format!("{title}.1"));
    let mut text = Vec::new();
    let source = format!("brindle {}", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).title(title).source(source);
    let render = |into: &mut Vec<u8>| -> io::Result<()> {
        page.render_title(into)?;
        page.render_name_section(into)?;
        page.render_synopsis_section(into)?;
        page.render_description_section(into)?;
        page.render_options_section(into)?;
        if command.has_subcommands() {
            page.render_subcommands_section(into)?;
        }
        into.extend(cli::sections(name, command).into_bytes());
        Ok(())
    };
    render(&mut text)
        .and_then(|()| fs::write(&path, text))
        .map_err(|source| Failure::output(path.display(), source))
}
