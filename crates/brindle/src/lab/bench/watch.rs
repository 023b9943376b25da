//! The display while jobs run: throughput on a terminal; and the way to end them early.

use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brindle_io::{Duration, Io};
use brindle_lab::run::Live;
use indicatif::{ProgressBar, ProgressDrawTarget};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::base::failure::Failure;

/// The time between two looks at the progress.
const STEP: Duration = Duration::from_millis(250);

/// Whether somebody has asked for the end: the first signal ends the jobs, a second one the process.
pub(crate) struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    pub(crate) fn new() -> Result<Self, Failure> {
        let asked = Arc::<AtomicBool>::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&asked))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&asked)))
                .map_err(|source| Failure::system("signals can't be handled", source))?;
        }
        Ok(Self(asked))
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Shows progress until the measuring task ends, and passes a request to end on to it.
pub(super) async fn watch(io: &Io, live: &Rc<Live>, signal: &StopSignal, bar: &ProgressBar) {
    let (mut ios, mut bytes, mut seen) = (0, 0, io.now());
    loop {
        io.sleep(STEP).await;
        if signal.is_asked() {
            live.stop();
        }
        let (all, now) = ((live.ios().iter().sum::<u64>(), live.bytes().iter().sum::<u64>()), io.now());
        let seconds = now.since(seen).as_secs_f64();
        let rate = |count: u64, before: u64| (count - before) as f64 / seconds;
        let mib = rate(all.1, bytes) / f64::from(1 << 20);
        bar.set_message(format!("{} jobs: {:.0} IOPS, {mib:.1} MiB/s", live.jobs(), rate(all.0, ios)));
        bar.tick();
        (ios, bytes, seen) = (all.0, all.1, now);
    }
}

/// On a terminal only.
pub(super) fn spinner() -> ProgressBar {
    let hidden = !std::io::stderr().is_terminal();
    let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    ProgressBar::with_draw_target(None, target)
}
