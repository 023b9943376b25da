//! `brindle mount` of a running server, and `umount`.

use std::path::{Path, PathBuf};

use brindle_host::MountedVolume;
use rustix::process::{getegid, geteuid};
use serde_json::json;

use crate::base::failure::Failure;
use crate::client::ask;
use crate::client::control::{Answer, Ask};
use crate::client::exports::{server_of, tell};
use crate::devices::mounts;
use crate::flags::cli::{Mount, Umount};

/// Mounts a volume of a running server, which gets the open /dev/fuse: a server that is boxed in could not mount for its machine.
pub(crate) fn mount(args: &Mount, name: &str, folder: &Path) -> Result<(), Failure> {
    let (runtime, server) = server_of(&args.runtime, name)?;
    let place = mounts::prepare(folder)?;
    // A server that is not there is told before anything is mounted.
    let mut line = ask::reach(&runtime, &server)?;
    let fresh = mounts::mount(&place, name, args.write)?;
    let order = Ask::Mount {
        folder: fresh.folder.clone(),
        write: args.write,
        user: geteuid().as_raw(),
        group: getegid().as_raw(),
    };
    let handed: Result<Answer<MountedVolume>, Failure> =
        line.hand(&order.of(name.to_owned()), fresh.hand_over());
    let answer = handed.inspect_err(|_| {
        // Nobody serves it: the reason is that of the server.
        let _ = mounts::unmount(&place, true);
    })?;
    let MountedVolume { name, writable, .. } = &*answer;
    let state = if *writable { "" } else { ", read-only" };
    tell(args.json, &answer, &format!("{name} is mounted at {}{state}\n", place.display()))
}

/// `brindle umount`.
pub(crate) fn umount(args: &Umount) -> Result<(), Failure> {
    let place = mounts::place(Path::new(&args.what));
    let all = mounts::all();
    let named = all.iter().filter(|one| one.source == args.what || one.folder == place);
    let mut places: Vec<PathBuf> = named.map(|one| one.folder.clone()).collect();
    places.dedup();
    if places.is_empty() && mounts::is_untold(&place) {
        places.push(place.clone());
    }
    if places.is_empty() {
        let known: Vec<String> =
            all.iter().map(|one| format!("{} at {}", one.source, one.folder.display())).collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        return Err(Failure::Refused(format!(
            "{}: no array or volume is mounted there, nor one of that name: mounted is {known}",
            args.what
        )));
    }
    for place in &places {
        mounts::unmount(place, args.lazy)?;
        // A mount that is out of sight keeps its server for all that is open of it.
        if !args.lazy && mounts::at(place).is_empty() && !mounts::wait_for_server(place) {
            eprintln!("brindle: {} is unmounted, and its server has not ended yet", place.display());
        }
    }
    let words: Vec<String> =
        places.iter().map(|place| format!("{} is unmounted\n", place.display())).collect();
    tell(args.json, &json!({"unmounted": places}), &words.concat())
}
