//! `emulate:MODEL:FILE`: a member that stores in FILE and answers when a drive of that model would.

use std::path::Path;
use std::time::Duration;

use brindle_io::device::OpenDevice;
use brindle_io::emulated::{BufferedFile, Emulated, Punctuality};
use brindle_io::{Io, MemberId};

use crate::base::failure::Failure;
use crate::base::models::model;

const SCHEME: &str = "emulate:";

/// The time between two looks at whether members keep up.
const ROUND: Duration = Duration::from_secs(5);

/// The model's name or file, and the member's file; none of what is named otherwise, or is a file of that name.
fn parts(name: &Path) -> Option<(&str, &Path)> {
    let (model, file) = name.to_str()?.strip_prefix(SCHEME)?.split_once(':')?;
    (!name.exists()).then_some((model, Path::new(file)))
}

/// Where a member is stored.
pub(crate) fn file_of(name: &Path) -> &Path {
    parts(name).map_or(name, |(_, file)| file)
}

/// Refuses a member with an unknown model, before it is opened.
pub(super) fn check(name: &Path) -> Result<(), Failure> {
    parts(name).map_or(Ok(()), |(of, _)| model(of).map(drop))
}

/// The file that a member of a model is kept in, for [`begin`]; none of other members.
pub(super) fn buffered(name: &Path, device: &OpenDevice) -> Result<Option<BufferedFile>, Failure> {
    parts(name).map(|_| Ok(BufferedFile::of(device)?)).transpose()
}

/// The member answers as its model does from now on, and says so where it can't.
pub(super) fn begin(
    io: &Io,
    emulated: &Emulated,
    name: &Path,
    id: MemberId,
    file: BufferedFile,
) -> Result<(), Failure> {
    let Some((of, _)) = parts(name) else { return Ok(()) };
    emulated.emulate(id, file, &model(of)?.stations);
    let (io, emulated, name) = (io.clone(), emulated.clone(), name.to_owned());
    drop(io.clone().spawn(async move {
        loop {
            io.sleep(ROUND).await;
            tell(&emulated, &name, id);
        }
    }));
    Ok(())
}

/// Says of a member that it does not keep up, if that is so.
pub(super) fn tell(emulated: &Emulated, name: &Path, id: MemberId) {
    let Some(kept) = emulated.kept(id).filter(|kept| !kept.is_up()) else { return };
    tracing::warn!("{}", complaint(name, kept));
}

fn complaint(name: &Path, kept: Punctuality) -> String {
    let micros = |nanos: u64| nanos as f64 / 1000.0;
    format!(
        "{}: can't keep up with its model: {} of {} answers came more than a tenth late, all of them by {:.1} us of {:.1} on \
         average, one by {:.0} us; ask it for less at a time, or give this machine less to do",
        name.display(),
        kept.late,
        kept.answers,
        micros(kept.lateness / kept.answers.max(1)),
        micros(kept.promised / kept.answers.max(1)),
        micros(kept.worst),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_model_and_a_file_that_may_hold_colons() {
        assert_eq!(parts(Path::new("emulate:nvme:/a:b")), Some(("nvme", Path::new("/a:b"))));
        assert_eq!(file_of(Path::new("emulate:nvme:/a")), Path::new("/a"));
        for other in ["emulate:nvme", "/dev/sda", "nvme:/a"] {
            assert_eq!(file_of(Path::new(other)), Path::new(other));
        }
        assert!(
            check(Path::new("emulate:nothing:/a")).is_err() && check(Path::new("emulate:nvme:/a")).is_ok()
        );
    }

    #[test]
    fn who_does_not_keep_up_is_told_how_far_it_is_behind() {
        let kept =
            Punctuality { answers: 200, late: 3, lateness: 400_000, promised: 20_000_000, worst: 90_000 };
        let reported = complaint(Path::new("emulate:nvme:/a"), kept);
        for words in
            ["emulate:nvme:/a: can't keep up", "3 of 200 answers", "by 2.0 us of 100.0", "one by 90 us"]
        {
            assert!(reported.contains(words), "{reported}");
        }
    }
}
