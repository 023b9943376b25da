//! Progress of long work: a bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error that counts bytes, with speed and the time that is left.
pub(crate) fn bar(what: &'static str, total: u64) -> ProgressBar {
    let style = "{msg} [{bar:40}] {percent:>3}%  {bytes}/{total_bytes}  {binary_bytes_per_sec}  {eta} left";
    styled(what, total, style)
}

/// A bar on standard error that counts bytes which another program goes over, and tells its speed.
pub(crate) fn byte_bar(total: u64) -> ProgressBar {
    styled("", total, "{prefix} [{bar:40}] {percent:>3}%  {bytes}/{total_bytes}{msg}")
}

/// A bar on standard error that counts steps, with the time that is left.
pub(crate) fn steps(what: &'static str, total: u64) -> ProgressBar {
    styled(what, total, "{msg} [{bar:40}] {percent:>3}%  {pos}/{len}  {eta} left")
}

fn styled(what: &'static str, total: u64, style: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what);
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
