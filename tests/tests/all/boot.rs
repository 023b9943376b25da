//! md takes over what Brindle made: stock kernels assemble it, find it clean, and read what was written.

use std::path::{Path, PathBuf};

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{self, or_skip};
use brindle_tests::vm::{Kernel, Report, Vm};

/// An array that Brindle made, and what a client wrote to it.
struct Written {
    level: &'static str,
    members: Vec<PathBuf>,
    sha256: String,
}

impl Written {
    /// Creates an array, fills it over NBD and stops it.
    fn new(dir: &Path, level: &'static str, count: usize) -> Self {
        let prefix = format!("raid{level}-");
        let members = files::members(dir, &prefix, count, 16 * MIB);
        let mut create: Vec<String> =
            ["create", "--name", &format!("boot{level}"), "--level", level].map(str::to_owned).to_vec();
        if level != "1" {
            create.extend(["--chunk", "64K"].map(str::to_owned));
        }
        create.extend(members.iter().map(|m| m.display().to_string()));
        program::brindle(&create).ok();

        let server = Server::start(&dir.join(format!("{prefix}run")), &members);
        let size = tools::run(&tools::find("nbdinfo").expect("looked for"), ["--size", &server.uri()]);
        let content = dir.join(format!("{prefix}content"));
        files::write_pattern(&content, size.trim().parse().expect("a size"), 10 + count as u64);
        let uri = server.uri();
        tools::run(
            &tools::find("nbdcopy").expect("looked for"),
            ["--flush".as_ref(), content.as_os_str(), uri.as_ref()],
        );
        server.stop();
        Self { level, members, sha256: files::sha256(&content) }
    }
}

/// Has md assemble each array, read it, compare its redundancy and stop it.
fn judged_by_md(vm: Vm, arrays: &[Written]) -> Report {
    let mut script = String::new();
    let mut first = 0;
    for (i, array) in arrays.iter().enumerate() {
        let next = first + array.members.len();
        let members: String = (first..next).map(|m| format!(" /dev/member/{m}")).collect();
        first = next;
        let level = array.level;
        script += &format!(
            "step 'examine level {level}' mdadm --examine {members}
             step 'assemble level {level}' mdadm --assemble /dev/md{i} {members}
             sys=/sys/block/md{i}/md
             if [ -e $sys/sync_action ]; then
                 put action{i} $(cat $sys/sync_action)
             fi
             put sha{i} $(sha /dev/md{i})
             if [ -e $sys/sync_action ]; then
                 echo check >$sys/sync_action
                 idle /dev/md{i}
                 put mismatches{i} $(cat $sys/mismatch_cnt)
             fi
             step 'detail of level {level}' mdadm --detail /dev/md{i}
             put state{i} \"$(mdadm --detail /dev/md{i} | sed -n 's/^ *State : *\\([^ ].*[^ ]\\) *$/\\1/p')\"
             step 'stop level {level}' mdadm --stop /dev/md{i}\n"
        );
    }
    let members = arrays.iter().flat_map(|a| &a.members);
    vm.disks(members).run(&script).unwrap()
}

#[test]
fn stock_kernels_assemble_and_read_what_brindle_made_and_wrote() {
    let Some(_) = or_skip(Vm::new()) else { return };
    let clients = ["nbdinfo", "nbdcopy"].map(tools::find).into_iter().collect::<Result<Vec<_>, _>>();
    let Some(_) = or_skip(clients) else { return };
    let dir = tempfile::tempdir().unwrap();
    let arrays: Vec<Written> = [("0", 4), ("1", 2), ("5", 4), ("6", 5), ("10", 4)]
        .into_iter()
        .map(|(level, count)| Written::new(dir.path(), level, count))
        .collect();

    for kernel in Kernel::ALL {
        let Some(vm) = or_skip(Vm::on(kernel)) else { continue };
        agreed(&judged_by_md(vm, &arrays), &arrays, kernel);
    }

    // And back: what md stopped, Brindle still reads.
    let content = dir.path().join("content");
    for array in &arrays {
        program::cat(&array.members, &content);
        assert_eq!(files::sha256(&content), array.sha256, "level {}: content after md had it", array.level);
    }
}

/// md found each array clean, with the content that was written and no redundancy that disagrees.
fn agreed(report: &Report, arrays: &[Written], kernel: Kernel) {
    for (i, array) in arrays.iter().enumerate() {
        let value = |key: &str| &report[format!("{key}{i}").as_str()];
        let name = format!("level {}, {kernel:?} kernel", array.level);
        assert_eq!(value("sha"), array.sha256, "{name}: content");
        assert_eq!(value("state"), "clean", "{name}");
        if array.level != "0" {
            assert_eq!(value("action"), "idle", "{name}: md saw no need to resync");
            assert_eq!(value("mismatches"), "0", "{name}");
        }
    }
}
