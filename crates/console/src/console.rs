//! All that a request is answered by.

use brindle_host::opening::ConsoleOptions;

use crate::assets::{Assets, tag};
use crate::board::Board;
use crate::sessions::Sessions;

/// The console of a process.
pub(crate) struct Console {
    pub(crate) options: ConsoleOptions,
    pub(crate) sessions: Sessions,
    pub(crate) board: Board,
    pub(crate) assets: Assets,
    /// The name of its cookie, which differs from that of another console at another port: cookies know no ports.
    cookie: String,
}

impl Console {
    pub(crate) fn new(options: ConsoleOptions, sessions: Sessions, token: &str) -> Self {
        let cookie = format!("brindle-{}", &tag(token.as_bytes())[1..9]);
        let board = Board::new(options.runtime_dir.clone());
        Self { options, sessions, board, assets: Assets::new(), cookie }
    }

    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }
}
