//! The way to ask members and sockets, for all commands.

use clap::ValueEnum;

/// The way to ask members and sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// io_uring if it can be had, else threads
    #[default]
    Auto,
    /// io_uring, or fail
    Uring,
    /// Threads of each member, and epoll
    Threads,
}

impl From<Engine> for crate::base::reactor::Engine {
    fn from(said: Engine) -> Self {
        match said {
            Engine::Auto => Self::Auto,
            Engine::Uring => Self::Uring,
            Engine::Threads => Self::Threads,
        }
    }
}
