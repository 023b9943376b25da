//! Daemons: what their settings mean at the start and at a reload.

use super::*;

const TERM: Option<Signal> = Some(Signal::TERM);
const DAEMON: &str = "daemon --config %settings";
const TANK: &str = "[[pools]]\nname = \"tank\"\n";

#[test]
fn a_daemon_begins_as_it_did() {
    let mut group = Group::new("daemon");
    let mut all = |title: &str, sets: &str, lines: &str, count: usize, prepare: &dyn Fn(&Scene)| {
        group.scene(title, sets, |scene| {
            scene.settings("settings", lines);
            prepare(scene);
            scene.prepared();
            let server = scene.serves(DAEMON, count);
            scene.ends(server, TERM);
        });
    };
    let as_it_is = |_: &Scene| {};
    let gone = |disks: &'static [&str]| {
        move |scene: &Scene| disks.iter().for_each(|disk| std::fs::remove_file(scene.disk(disk)).unwrap())
    };
    all("three arrays and a pool", "a b c tank", TANK, 4, &as_it_is);
    all("an array, and a pool that the settings do not name", "a tank", "", 1, &as_it_is);
    all("one of three lacks a member, one too many", "a b c", "", 2, &gone(&["a0", "a1", "b0"]));
    all("a pool lacks a member", "a tank", TANK, 2, &gone(&["tank0"]));
    all("a pool and an array have one name", "b tank", TANK, 1, &|scene| {
        for disk in ["b0", "b1"] {
            limits::patch(&scene.disk(disk), |sb| sb.name = "here:tank".to_owned());
        }
    });
    all("two arrays have one name", "a b", "", 2, &|scene| {
        for disk in ["b0", "b1"] {
            limits::patch(&scene.disk(disk), |sb| sb.name = "here:a".to_owned());
        }
    });
    all("a superblock is damaged", "a b", "", 2, &|scene| flip(&scene.disk("b1"), 4096 + 200));
    all("a member of another array is there", "a b", "", 2, &gone(&["b0"]));
    all("an array is named that is not there", "a", "[[arrays]]\nname = \"z\"\n", 1, &as_it_is);
    all("nothing is there", "", "[[arrays]]\nname = \"z\"\n", 1, &as_it_is);
    group.scene("a pool lacks a member, and may", "a tank", |scene| {
        scene.settings("settings", &format!("{TANK}degraded = true\n"));
        std::fs::remove_file(scene.disk("tank0")).unwrap();
        scene.is_vague = true;
        let server = scene.serves(DAEMON, 2);
        scene.ends(server, TERM);
    });
    group.scene("an array of another server", "a b", |scene| {
        scene.settings("settings", "");
        let other = scene.serves("serve @a", 1);
        let server = scene.serves(DAEMON, 1);
        scene.runs(DAEMON);
        scene.ends(server, TERM);
        scene.ends(other, TERM);
    });
    group.scene("a member that somebody has", "a b", |scene| {
        scene.settings("settings", "");
        let held = std::fs::File::open(scene.disk("a1")).unwrap();
        held.lock().unwrap();
        let server = scene.serves(DAEMON, 1);
        held.unlock().unwrap();
        scene.ends(server, TERM);
    });
    group.hold();
}

#[test]
fn a_daemon_refuses_its_settings_as_it_did() {
    let mut group = Group::new("settings");
    let mut refused = |title: &str, lines: &str| {
        group.scene(title, "a", |scene| {
            scene.settings("settings", lines);
            scene.refused(DAEMON);
        });
    };
    refused("no word of settings", "colour = 1\n");
    refused("no unit", "[tuning]\nmemory = \"12Q\"\n");
    refused("no address", "[exports]\nnbd = [\"nowhere\"]\n");
    refused("no such file of access", "[exports]\naccess = \"/nowhere/access\"\n");
    refused("no such folder of a socket", "[exports]\nnbd = [\"unix:/nowhere/nbd\"]\n");
    group.scene("settings that can't be read, and devices that are not there", "a", |scene| {
        scene.refused("daemon --config %nowhere");
        scene.refused("daemon --config %disks");
        std::fs::write(scene.path("settings"), [0xff, 0xfe, 0]).unwrap();
        scene.refused(DAEMON);
        let devices = |scene: &Scene, devices: &[PathBuf]| {
            let text = format!("homehost = \"here\"\nwait = \"1ms\"\ndevices = {devices:?}\n");
            std::fs::write(scene.path("settings"), text).unwrap();
        };
        devices(scene, &[scene.path("nowhere")]);
        scene.refused(DAEMON);
        let disks = ["a0", "a1", "a2"].map(|disk| scene.disk(disk));
        devices(scene, &[&[scene.path("nowhere")], &disks[..]].concat());
        let server = scene.serves(DAEMON, 1);
        scene.ends(server, TERM);
    });
    group.hold();
}

#[test]
fn a_daemon_takes_new_settings_as_it_did() {
    let mut group = Group::new("reload");
    group.scene("arrays and a pool are added and removed", "a b tank", |scene| {
        let mean = |scene: &Scene, lines: &str| {
            let head = "homehost = \"there\"\nwait = \"1ms\"\n";
            let text = format!("{head}devices = [{:?}]\n{lines}", scene.path("disks"));
            std::fs::write(scene.path("settings"), text).unwrap();
        };
        let (a, b) = ("[[arrays]]\nname = \"a\"\n", "[[arrays]]\nname = \"b\"\n");
        mean(scene, a);
        let server = scene.serves(DAEMON, 1);
        for lines in [&*[a, b].concat(), &[a, b, TANK].concat(), a, "colour = 1\n", "", TANK] {
            mean(scene, lines);
            scene.runs("reload --json");
        }
        scene.ends(server, TERM);
    });
    group.scene("members come late", "a b tank", |scene| {
        let away = scene.path("away");
        std::fs::create_dir(&away).unwrap();
        let go = |disk: &str| std::fs::rename(scene.disk(disk), away.join(disk)).unwrap();
        ["b0", "b1", "tank0"].into_iter().for_each(go);
        scene.settings("settings", TANK);
        let server = scene.serves(DAEMON, 2);
        let come = |scene: &Scene, disk: &str| {
            std::fs::rename(scene.path("away").join(disk), scene.disk(disk)).unwrap();
        };
        for disk in ["tank0", "b0", "b1"] {
            come(scene, disk);
            scene.runs("reload --json");
        }
        scene.runs("reload --json");
        scene.ends(server, TERM);
    });
    group.scene("an array whose name a pool has, and one that can't be taken", "a b c tank", |scene| {
        for disk in ["b0", "b1"] {
            limits::patch(&scene.disk(disk), |sb| sb.name = "here:tank".to_owned());
        }
        std::fs::create_dir(scene.path("away")).unwrap();
        for disk in ["b0", "b1", "c0", "c1"] {
            std::fs::rename(scene.disk(disk), scene.path("away").join(disk)).unwrap();
        }
        scene.settings("settings", TANK);
        let server = scene.serves(DAEMON, 2);
        for disk in ["b0", "b1", "c0", "c1"] {
            std::fs::rename(scene.path("away").join(disk), scene.disk(disk)).unwrap();
        }
        let held = std::fs::File::open(scene.disk("c1")).unwrap();
        held.lock().unwrap();
        scene.runs("reload --json");
        held.unlock().unwrap();
        scene.runs("reload --json");
        scene.ends(server, TERM);
    });
    group.hold();
}
