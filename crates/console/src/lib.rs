//! The console: a page that shows the arrays and pools of running servers, and mends them. It is a client of their control sockets, as
//! `brindle watch` is, in a process of its own: no HTTP is parsed where disks are written. `brindle console` starts it.

mod answers;
#[cfg(test)]
mod any_request;
mod api;
mod ask;
mod assets;
mod board;
mod console;
mod door;
mod events;
mod guard;
mod health;
mod members;
mod orders;
mod pages;
mod peer;
mod program;
mod rates;
mod sessions;
mod strict;
pub mod trial;
mod words;
mod work;

use std::ffi::OsString;
use std::sync::Arc;

use brindle_host::opening::ConsoleOptions;

use console::Console;
use sessions::Sessions;

/// Answers browsers until the process is told to end. The options come as JSON, in the only word: flags are defined where all of the
/// program's are.
///
/// # Errors
/// Why it can't, for people.
pub fn run(words: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    let mut words = words.into_iter();
    let (Some(options), None) = (words.next(), words.next()) else {
        return Err("it is started by `brindle console`, which `brindle help console` explains".to_owned());
    };
    let options: ConsoleOptions = serde_json::from_slice(options.as_encoded_bytes())
        .map_err(|error| format!("the options can't be read: {error}; start it by `brindle console`"))?;
    let token = std::fs::read_to_string(&options.token_file).map_err(|error| {
        format!("{}: {error}; `brindle console --token` makes it anew", options.token_file.display())
    })?;
    let sessions = Sessions::new(token.trim())?;
    let console = Arc::new(Console::new(options, sessions, token.trim()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("its thread can't run: {error}"))?;
    runtime.block_on(door::answer(console))
}
