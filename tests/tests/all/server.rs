//! A server as docs/server.md has it: a Debian with systemd, udev and mdadm, into which the package is put. The blocks of that page are
//! typed from top to bottom, and the service is in the box of its unit. An array of ours and one of md's are there, and each is left to its
//! owner. Two boots on one disk, and `BRINDLE_BOOTS` more between them. In the first the service is restarted under load `BRINDLE_RESTARTS`
//! times (once). Members are asked by the ring in the first, and by threads from then on.

use std::path::PathBuf;
use std::time::Duration;

use brindle_tests::files;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Kernel, Report, Vm, debian};
use serde_json::Value;
use tempfile::TempDir;

use crate::{packaged, pasted};

/// Functions that all scripts call.
const HELPERS: &str = include_str!("server/helpers.sh");
/// Functions about the console.
const CONSOLE: &str = include_str!("server/console.sh");
/// From five disks to file systems that are there after a reboot.
const FIRST: &str = include_str!("server/first.sh");
/// The boots between the first and the last.
const AGAIN: &str = include_str!("server/again.sh");
/// The boot at whose end the package is removed.
const LAST: &str = include_str!("server/last.sh");

/// The disks of a server.
struct Machine {
    /// The package, the blocks of the page, and its sample of settings.
    payload: Vec<(String, Vec<u8>)>,
    dir: TempDir,
    /// Four members of ours, one of md's. One more would take virtio's serial numbers away, by which scripts find them: with the disk
    /// of the system these are as many as are devices of their own.
    disks: Vec<PathBuf>,
}

impl Machine {
    fn new() -> Option<Self> {
        let package = or_skip(packaged::package_of(".deb"))?;
        let dir = tempfile::tempdir().unwrap();
        let mut payload =
            vec![("brindle.deb".to_owned(), packaged::without_compression(&package, dir.path()))];
        let blocks = pasted::blocks_of("server.md", "sh server").into_iter().zip(1..);
        payload.extend(blocks.map(|(text, number)| (format!("block-{number}"), text.into_bytes())));
        let sample = pasted::blocks_of("server.md", "toml settings").into_iter().next().expect("a sample");
        payload.push(("sample.toml".to_owned(), sample.into_bytes()));
        payload.extend(console_by_its_page());
        let mut disks = files::members(dir.path(), "disk", 4, 48 << 20);
        disks.extend(files::members(dir.path(), "other", 1, 16 << 20));
        files::sparse(&dir.path().join("nvme"), 16 << 20);
        or_skip(debian::disk(&dir.path().join("own")))?;
        Some(Self { payload, dir, disks })
    }

    fn boot(&self, script: &str) -> Option<Report> {
        let own = self.dir.path().join("own");
        let vm = Vm::on(Kernel::Release)
            .and_then(|vm| vm.debian(&own, &self.payload))
            .and_then(|vm| vm.nvme(&[4]));
        let vm = or_skip(vm)?.nvme_images([self.dir.path().join("nvme")]);
        let script = format!("{HELPERS}\n{CONSOLE}\n{script}");
        Some(vm.disks(&self.disks).limit(Duration::from_secs(900)).run(&script).unwrap())
    }
}

/// The settings and the block of docs/console.md by which it becomes a service. The server is started anew by its own page.
fn console_by_its_page() -> [(String, Vec<u8>); 2] {
    let settings = pasted::blocks_of("console.md", "toml console").remove(0);
    let all = pasted::blocks_of("console.md", "sh server");
    let block = all.iter().find(|block| block.contains("brindle-console")).expect("a block");
    let lines: Vec<&str> = block.lines().filter(|line| *line != "systemctl restart brindle").collect();
    assert_eq!(lines.len() + 1, block.lines().count(), "{block}");
    [
        ("control.toml".to_owned(), settings.into_bytes()),
        ("console-block".to_owned(), lines.join("\n").into_bytes()),
    ]
}

/// A number that a variable of the environment says, else this one.
fn number(variable: &str, else_this: usize) -> usize {
    std::env::var(variable).map_or(else_this, |count| count.parse().expect("a number"))
}

fn json(report: &Report, key: &str) -> Value {
    serde_json::from_str(&report[key]).unwrap_or_else(|error| panic!("{key}: {error}: {}", &report[key]))
}

/// Names of all that a list of `brindle status` has, sorted.
fn names(served: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        served.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

/// All that a daemon serves once its settings name the folder of files, too.
const ALL: [&str; 3] = ["data", "fast", "tank"];

/// Brindle serves its own array alone, md runs the other one alone, and each is to be seen.
fn each_has_its_own(report: &Report, served: &[&str]) {
    assert_eq!(names(&json(report, "served")), served);
    assert_eq!((&report["md"], &report["md_members"]), ("1", &report["md_disk"]));
    for name in ["nas:data", "nas:other"] {
        let lines = report["scan"].split('|').filter(|line| line.ends_with(&format!(" name={name}")));
        assert_eq!(lines.count(), 1, "{name}: {}", &report["scan"]);
    }
}

/// The unit is the confined one, a folder out of its reach is told with the line of the settings, and with the page's drop-in all is served.
fn is_in_its_box(first: &Report) {
    let unit = &first["unit"];
    assert!(unit.contains("ProtectSystem=strict") && unit.contains("NoNewPrivileges=no"), "{unit}");
    assert!(unit.contains("cap_sys_admin") && !unit.contains("cap_sys_ptrace"), "{unit}");
    assert!(
        first["boxed"].contains("--drop-in=/etc/systemd/system/brindle.service.d/"),
        "{}",
        &first["boxed"]
    );
    assert_eq!(&first["unreached"], "1");
    assert_eq!(names(&json(first, "all_served")), ALL);
    assert_eq!((&first["volume"], &first["scrubbed"]), ("same", "success 1"));
}

/// The console is in its box: it shows all, reads no member, has no right, and mends by one order.
fn has_a_console(first: &Report) {
    assert_eq!(&first["page"], "<!DOCTYPE html></html>");
    let assets = &first["assets"];
    assert!(assets.len() >= 12 && assets.split_whitespace().all(|status| status == "200"), "{assets}");
    let item = |key: &str| {
        let all = json(first, key)["items"].clone();
        all.as_array().unwrap().iter().find(|item| item["name"] == "data").unwrap().clone()
    };
    assert_eq!(names(&json(first, "overview")["items"]), ALL);
    assert_eq!(&first["unasked"], "401");
    assert!(
        first["detail"].ends_with(" 502") && first["detail"].contains("this console can't read the members"),
        "{}",
        &first["detail"]
    );
    let exposure: f64 = first["exposure"].parse().unwrap();
    assert!(exposure <= 2.0, "{exposure}");
    assert_eq!(&first["console"], "CapBnd:0000000000000000 NoNewPrivs:1 Seccomp:2 ");
    // systemd makes users of these numbers while their service runs.
    let user: u32 = first["console_user"].parse().unwrap();
    assert!((61184..=65519).contains(&user), "{user}");
    let degraded = item("degraded");
    assert_eq!(degraded["severity"], "degraded", "{degraded}");
    assert_eq!(degraded["next"]["mend"]["order"]["ask"], "add", "{degraded}");
    assert!(
        first["mended"].ends_with(" 200") && first["mended"].contains("brindle add data"),
        "{}",
        &first["mended"]
    );
    assert_eq!((&first["ordered"], &item("whole")["members"].as_array().unwrap().len()), ("1", &4));
    assert_ne!(item("whole")["severity"], "degraded");
}

/// After an upgrade the drop-in is there, and without CAP_SYS_ADMIN all is served but devices of this machine.
fn does_without_attach(last: &Report) {
    assert_eq!((&last["threads"], &last["volume"]), ("1", "same"));
    assert_eq!(&last["drop_in"], "[Service] ReadWritePaths=-/disks ");
    // CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID, NET_BIND_SERVICE, SYS_RAWIO, SYS_RESOURCE.
    assert_eq!(&last["rights"], "CapBnd:00000000010204cb NoNewPrivs:1 ");
    assert_eq!(names(&json(last, "without")), ALL);
    assert!(last["refused"].contains("CAP_SYS_ADMIN"), "{}", &last["refused"]);
}

/// A boot has found all that the one before has left, which was switched off under load. Times are printed and not judged, since a busy
/// machine takes longer: a server that systemd had to kill would show.
fn is_whole(boot: usize, report: &Report) {
    println!(
        "boot {boot}: {} s of {:?}; stopping took {} ms before",
        &report["boot"], report.took, &report["stopping"]
    );
    assert_eq!((&report["failed"], &report["mounted"]), ("", "ext4"));
    assert_eq!((&report["same"], &report["other"]), ("yes", "yes"));
    each_has_its_own(report, &ALL);
    let array = &json(report, "status")["array"];
    assert_eq!(
        (&array["missing"], &array["resync_offset"]),
        (&serde_json::json!([]), &Value::Null),
        "{array}"
    );
    assert!(
        array["state"].as_array().unwrap().iter().all(|word| *word == "clean" || *word == "active"),
        "{array}"
    );
    assert_eq!((&report["unclean"], &report["recovered"], &report["forced"]), ("0", "0", "0"));
    assert_eq!(&report["order"], "load.service srv.mount brindle.service ");
}

#[test]
fn a_server_has_its_array_after_a_reboot() {
    let Some(machine) = Machine::new() else { return };
    let restarts = number("BRINDLE_RESTARTS", 1).to_string();
    let Some(first) = machine.boot(&format!("restarts={restarts}\n{FIRST}")) else { return };
    println!("boot 1: {} s of {:?}", &first["boot"], first.took);
    assert_eq!((&first["failed"], &first["enabled"], &first["active"]), ("", "disabled", "active"));
    assert_eq!((&first["early"], &first["errors"], &first["rights"]), ("0", "0", "0"));
    assert_eq!((&first["same"], &first["another"]), ("yes", "yes"));
    assert_eq!(first["kept"], restarts);
    let device = &first["device"];
    assert!(device.starts_with("/dev/nbd"), "{device}");
    assert_eq!(
        (&first["detached"], &first["attached"]),
        ("gone", &*format!("data is {device}, named /dev/brindle/data"))
    );
    assert_eq!(&first["mailed"], "1");
    assert_eq!(json(&first, "sampled")["limits"]["bandwidth"], 200 << 20);
    assert_eq!(&first["taken"], &first["md_disk"]);
    assert_eq!(names(&json(&first, "unheld")), ["data"]);
    each_has_its_own(&first, &ALL);
    is_in_its_box(&first);
    has_a_console(&first);
    let boots = number("BRINDLE_BOOTS", 0);
    for more in 0..boots {
        let Some(again) = machine.boot(AGAIN) else { return };
        is_whole(more + 2, &again);
    }
    let Some(last) = machine.boot(LAST) else { return };
    is_whole(boots + 2, &last);
    does_without_attach(&last);
    let blocks = pasted::blocks_of("server.md", "sh server").len();
    assert_eq!(&last["pasted"], &*blocks.to_string());
    assert_eq!((&last["kept"], &last["link"], &last["left"]), ("yes", "gone", "0"));
    assert_eq!(json(&last, "compared")["mismatch_cnt"], 0);
}
