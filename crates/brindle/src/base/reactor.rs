//! The reactor that asks members: io_uring, or threads where that is not available.

use std::sync::{Once, OnceLock};

use brindle_io::uring::{Uring, UringError};

/// The way to ask members and sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Engine {
    /// io_uring if it can be had, else threads.
    #[default]
    Auto,
    /// io_uring, or fail.
    Uring,
    /// Threads of each member, and epoll.
    Threads,
}

/// The choice for every world of this process.
static CHOICE: OnceLock<Engine> = OnceLock::new();

/// Sets the engine for all worlds. Called before the first one is made.
pub(crate) fn choose(engine: Engine) {
    CHOICE.get_or_init(|| engine);
}

/// A reactor as it was chosen. The fallback to threads is reported once.
pub(crate) fn new() -> Result<Uring, UringError> {
    static REPORTED: Once = Once::new();
    match CHOICE.get().copied().unwrap_or_default() {
        Engine::Uring => Uring::new(),
        Engine::Threads => Uring::on_threads(),
        Engine::Auto => Uring::new().or_else(|why| {
            if !why.is_absent() {
                return Err(why);
            }
            let threads = Uring::on_threads()?;
            REPORTED.call_once(|| {
                tracing::warn!(
                    "members are asked by threads, which costs more processor time: {why}; --reactor threads asks for that \
                     and says nothing"
                );
            });
            Ok(threads)
        }),
    }
}

/// Says once for all reactors if the kernel refuses to register buffers of one.
pub(crate) fn say_if_locked_memory_lacks() {
    brindle_io::uring::say_if_locked_memory_lacks(|| {
        tracing::warn!(
            "the limit on locked memory is too low for the buffers of all reactors: some are not registered with the kernel, \
             which costs more processor time; raise it to what --memory says and more (ulimit -l, LimitMEMLOCK=)"
        );
    });
}
