//! Pools of the release that froze their format, kept as archives: every later one serves them. `BRINDLE_KEEP_POOLS=write` makes anew those
//! that are missing. An archive that is there is never written: a pool that can't be read any more is a fault of the program.

use std::path::{Path, PathBuf};

use brindle_tests::files::{self, MIB};
use brindle_tests::program::Server;
use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;

use super::pools::{Tank, bytes, write};

/// Bytes of the volume.
const VOLUME: u64 = 3 * MIB;

/// A pool, and how it was left.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// Stopped, with a second volume.
    Stopped,
    /// Two vdevs that are not alike, killed with all content in the log.
    Unlike,
    /// Killed while a member was away that lacks what was written.
    Away,
    /// Killed while a member in use was copied to the device that takes its place, with a spare.
    Replacing,
}

impl Kept {
    const ALL: [Self; 4] = [Self::Stopped, Self::Unlike, Self::Away, Self::Replacing];

    fn archive(self) -> PathBuf {
        let name = format!("{self:?}.tar.zst").to_lowercase();
        Path::new(env!("CARGO_MANIFEST_DIR")).join("pools").join(name)
    }

    /// Words of `pool status`, among others.
    fn said(self) -> &'static [&'static str] {
        match self {
            Self::Stopped => &["raidz2-0"],
            Self::Unlike => &["mirror-0", "raidz1-1"],
            Self::Away => &["raidz1-0", "OFFLINE"],
            Self::Replacing => &["raidz1-0", "is copied to the device that replaces it", "AVAIL"],
        }
    }

    fn content(self) -> Vec<u8> {
        bytes(self as u64 + 21, VOLUME)
    }

    /// Makes it, and gives its content.
    fn made(self) -> Tank {
        let tank = match self {
            Self::Stopped => Tank::new("raidz2", 5),
            Self::Unlike => unlike(),
            Self::Away | Self::Replacing => Tank::new("raidz1", 4),
        };
        tank.stopped("volume create", &format!("tank/one {VOLUME}")).ok();
        tank.stopped("volume create", "tank/two 1M").ok();
        let server = tank.serve();
        let (content, half) = (self.content(), VOLUME as usize / 2);
        let mut client = tank.client("one");
        write(&mut client, 0, &content[..half]);
        match self {
            Self::Stopped | Self::Unlike => {}
            Self::Away => drop(tank.ask(&format!("pool offline tank {}", tank.members[1].display())).ok()),
            Self::Replacing => {
                let new = files::members(tank.dir.path(), "n", 2, 16 * MIB);
                tank.ask(&format!("pool add tank spare {}", new[0].display())).ok();
                let (old, new) = (tank.members[2].display(), new[1].display());
                tank.ask(&format!("pool replace tank {old} {new}")).ok();
            }
        }
        write(&mut client, half as u64, &content[half..]);
        if let Self::Stopped = self {
            client.close();
            server.stop();
        } else {
            server.signal(Signal::KILL);
        }
        tank
    }

    /// The kept one, unpacked in a folder of its own.
    fn taken(self) -> Tank {
        let dir = tempfile::tempdir().unwrap();
        let from = self.archive();
        tools::run(
            Path::new("tar"),
            ["--zstd".as_ref(), "-C".as_ref(), dir.path().as_os_str(), "-xf".as_ref(), from.as_os_str()],
        );
        let mut members: Vec<PathBuf> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        members.sort();
        Tank { dir, members }
    }

    fn keep(self) {
        let tank = self.made();
        std::fs::create_dir_all(self.archive().parent().unwrap()).unwrap();
        let names = std::fs::read_dir(tank.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let words = ["--zstd", "--sparse", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-C"]
            .map(Into::into);
        let words =
            words.into_iter().chain([tank.dir.path().into(), "-cf".into(), self.archive().into_os_string()]);
        tools::run(
            Path::new("tar"),
            words.chain(names.filter(|name| name.to_string_lossy().ends_with(".img"))),
        );
    }
}

/// A mirror and a RAID-Z.
fn unlike() -> Tank {
    let tank = Tank { dir: tempfile::tempdir().unwrap(), members: Vec::new() };
    let members = files::members(tank.dir.path(), "m", 5, 16 * MIB);
    let names: Vec<String> = members.iter().map(|member| member.display().to_string()).collect();
    let words =
        format!("pool create --force tank mirror {} raidz1 {}", names[..2].join(" "), names[2..].join(" "));
    tank.run(&words, &[]).ok();
    Tank { members, ..tank }
}

#[test]
fn pools_of_the_release_that_froze_the_format_are_served() {
    let Some(_zstd) = or_skip(tools::find("zstd")) else { return };
    for kept in Kept::ALL {
        if !kept.archive().exists()
            && std::env::var_os("BRINDLE_KEEP_POOLS").is_some_and(|word| word == "write")
        {
            kept.keep();
        }
        let tank = kept.taken();
        let content = kept.content();
        // It was another host's, and is gone with that.
        assert!(tank.run("cat tank/one", &tank.members).ended(0).out == content, "{kept:?}");
        let words = ["--memory", "32M", "--force", "--degraded"].map(PathBuf::from);
        let server = Server::start(&tank.runtime(), words.into_iter().chain(tank.members.iter().cloned()));
        let status = tank.ask("pool status tank").text();
        assert!(kept.said().iter().all(|word| status.contains(word)), "{kept:?}: {status}");
        let mut client = tank.client("one");
        assert!(client.read(0, VOLUME) == content, "{kept:?}");
        if let Kept::Away = kept {
            tank.ask(&format!("pool online tank {}", tank.members[1].display())).ok();
        }
        tank.ask("wait tank").ended(0);
        write(&mut client, 4096, &content[..4096]);
        assert!(client.read(4096, 4096) == content[..4096], "{kept:?}");
        let scrubbed = tank.ask("pool scrub -w tank").ended(0).text();
        assert!(
            scrubbed.contains("healed 0 blocks") && scrubbed.contains(" 0 errors"),
            "{kept:?}: {scrubbed}"
        );
        client.close();
        let (code, said) = server.signal(Signal::TERM);
        assert_eq!(code, 0, "{kept:?}: {said}");
    }
}
