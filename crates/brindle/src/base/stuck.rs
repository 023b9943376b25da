//! The end of a process in which a task computes without end: nothing else is served any more, and only a new one can go on.

use brindle_io::{Duration, Io, Stuck, Watch};

use crate::base::failure::Failure;
use crate::base::log;

/// Processor time after which a task is taken to have no end.
pub(crate) const MOST: Duration = Duration::from_secs(30);

/// Ends this process once a task of `io`, whose thread this is, has used `most` of processor time without a turn of the others.
pub(crate) fn end_if_stuck(io: &Io, most: Duration) -> Result<Watch, Failure> {
    let watch = io.watch(most, |stuck| {
        log::complain(&Failure::from(stuck));
        log::flush();
        std::process::abort();
    });
    watch.map_err(|source| Failure::system("the processor time of tasks can't be watched", source))
}

impl From<Stuck> for Failure {
    fn from(Stuck { task, used }: Stuck) -> Self {
        Self::Stuck { task, seconds: used.as_secs() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use brindle_io::memory::Memory;

    use super::*;

    async fn spin() {
        loop {
            std::hint::spin_loop();
        }
    }

    /// Names the process that computes without end.
    const SPINS: &str = "BRINDLE_TEST_SPINS";

    #[test]
    fn a_process_whose_task_has_no_end_ends_and_names_it() {
        if std::env::var_os(SPINS).is_some() {
            let io = Io::new(Box::new(Memory::new()));
            let _watch = end_if_stuck(&io, Duration::from_millis(100)).unwrap();
            io.block_on(async { io.spawn(spin()).await });
        }
        // The same test, in a process of its own. The harness leaves out the crate.
        let (_, module) = module_path!().split_once("::").unwrap();
        let test = format!("{module}::a_process_whose_task_has_no_end_ends_and_names_it");
        let mut command = Command::new(std::env::current_exe().unwrap());
        let ended = command.args(["--exact", &test, "--nocapture"]).env(SPINS, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("stuck::tests::spin") && said.contains("s of processor time"), "{said}");
    }
}
