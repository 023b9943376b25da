//! Daemons that are taken over, or are not.

use std::time::Instant;

use super::*;

const TERM: Option<Signal> = Some(Signal::TERM);
const OLD: &str = "daemon --config %settings";
const NEW: &str = "daemon --takeover --config %settings";
const TANK: &str = "[[pools]]\nname = \"tank\"\n";

#[test]
fn daemons_are_taken_over_as_they_were() {
    let mut group = Group::new("takeover");
    let mut taken = |title: &str, sets: &str, lines: &str, count: usize| {
        group.scene(title, sets, |scene| {
            scene.settings("settings", lines);
            let old = scene.serves(OLD, count);
            let new = scene.serves(NEW, count);
            scene.ends(old, None);
            scene.ends(new, TERM);
        });
    };
    taken("of one array", "a", "", 1);
    taken("of three arrays and a pool", "a b c tank", TANK, 4);
    group.scene("of nobody", "a", |scene| {
        scene.settings("settings", "");
        let new = scene.serves(NEW, 1);
        scene.ends(new, TERM);
    });
    group.scene("of a server that is no daemon", "a b", |scene| {
        scene.settings("settings", "");
        let old = scene.serves("serve --name brindle @a", 1);
        scene.refused(NEW);
        scene.ends(old, TERM);
    });
    group.scene("with settings that are none", "a b", |scene| {
        scene.settings("settings", "");
        let old = scene.serves(OLD, 2);
        scene.settings("other", "colour = 1\n");
        scene.refused("daemon --takeover --config %other");
        scene.ends(old, TERM);
    });
    group.scene("while the second array can't be taken", "a b", |scene| {
        scene.settings("settings", "");
        let mut old = scene.serves(OLD, 2);
        flip(&scene.disk("b0"), 4096 + 200);
        flip(&scene.disk("b1"), 4096 + 200);
        scene.prepared();
        scene.refused(NEW);
        // It serves again what can be served.
        scene.says(&mut old, "serving");
        scene.ends(old, TERM);
    });
    group.scene("while the second of three arrays can't be taken", "a b c", |scene| {
        scene.settings("settings", "");
        let mut old = scene.serves(OLD, 3);
        // Its bitmap is nowhere: that shows when the old one has stopped.
        let lines = format!("[[arrays]]\nname = \"b\"\nbitmap = {:?}\n", scene.path("nowhere"));
        scene.settings("other", &lines);
        scene.runs("daemon --takeover --json --config %other");
        // It serves all again.
        (0..3).for_each(|_| scene.says(&mut old, "serving"));
        scene.ends(old, TERM);
    });
    group.scene("by one that can't listen: the old one serves on", "a b tank", |scene| {
        scene.is_vague = true;
        scene.settings("settings", TANK);
        let mut old = scene.serves(OLD, 3);
        let taken = std::os::unix::net::UnixListener::bind(scene.path("taken")).unwrap();
        let place = format!("{TANK}[exports]\nnbd = [\"unix:{}\"]\n", scene.path("taken").display());
        scene.settings("other", &place);
        scene.runs("daemon --takeover --json --config %other");
        drop(taken);
        // It serves all again.
        (0..3).for_each(|_| scene.says(&mut old, "serving"));
        scene.ends(old, TERM);
    });
    group.hold();
}

/// Settings of a daemon that waits for its file of access, which is a pipe: it has the sockets of the old one then, and has opened no
/// member for writing.
fn waits(scene: &Scene) {
    let pipe = scene.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    scene.settings("waits", &format!("[exports]\naccess = {pipe:?}\n"));
}

/// The other end of the pipe, once somebody reads it.
fn reader(scene: &Scene) -> std::fs::File {
    use rustix::fs::OFlags;
    let begun = Instant::now();
    loop {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if let Ok(pipe) = rustix::fs::open(scene.path("pipe"), flags, rustix::fs::Mode::empty()) {
            return pipe.into();
        }
        assert!(begun.elapsed().as_secs() < 60, "nobody reads the pipe");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// A new daemon between the steps of a takeover.
fn between(scene: &Scene) -> (std::process::Child, std::fs::File) {
    use std::process::Stdio;
    let mut command = Command::new(program::path());
    command.args(scene.words("daemon --takeover --json --config %waits")).env(RUNTIME, scene.runtime());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pipe = reader(scene);
    (child, pipe)
}

#[test]
fn kills_between_the_steps_of_a_takeover_end_as_they_did() {
    use std::io::Write;
    let mut group = Group::new("takeover-killed");
    group.scene("the new one is killed: the old one serves on", "a b", |scene| {
        scene.settings("settings", "");
        waits(scene);
        let mut old = scene.serves(OLD, 2);
        let (mut new, pipe) = between(scene);
        new.kill().unwrap();
        new.wait().unwrap();
        drop(pipe);
        (0..2).for_each(|_| scene.says(&mut old, "serving"));
        scene.ends(old, TERM);
    });
    group.scene("the old one is killed: the new one does not go on, and a third does", "a b", |scene| {
        scene.settings("settings", "");
        waits(scene);
        let old = scene.serves(OLD, 2);
        let (new, mut pipe) = between(scene);
        scene.ends(old, Some(Signal::KILL));
        pipe.write_all(b"* anyone write\n").unwrap();
        drop(pipe);
        ends(scene, new);
        let third = scene.serves(OLD, 2);
        scene.ends(third, TERM);
    });
    group.scene(
        "somebody takes a member of the second array: the new one is refused, and the old one serves on",
        "a b",
        |scene| {
            scene.settings("settings", "");
            waits(scene);
            let mut old = scene.serves(OLD, 2);
            let (new, mut pipe) = between(scene);
            let held = std::fs::File::open(scene.disk("b1")).unwrap();
            held.lock().unwrap();
            pipe.write_all(b"* anyone write\n").unwrap();
            drop(pipe);
            ends(scene, new);
            scene.says(&mut old, "serving");
            held.unlock().unwrap();
            scene.ends(old, TERM);
        },
    );
    group.hold();
}

fn ends(scene: &mut Scene, new: std::process::Child) {
    let ended = new.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).lines().map(line).collect();
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    scene.step("the new one ends", Some((ended.status.code().unwrap_or(-1), &err)), said);
}
