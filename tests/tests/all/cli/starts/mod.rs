//! Starts of servers: exit status, standard error, events in their order and the blocks of members that have changed, each as the golden
//! files in `tests/goldens/starts` have it. Whoever changes how servers take arrays and pools in sees there what else has changed.
//!
//! A command is a line of words. `@a` stands for all disks of the set `a`, `@a0` for its first one, `%name` for a path in the scene's folder.

mod daemon;
mod killed;
mod refused;
mod scanned;
mod serve;
mod takeover;

use std::collections::BTreeMap;
use std::process::Command;

use brindle_format::md::{SUPERBLOCK_BYTES, Superblock, Uuid, probe_offsets};
use brindle_tests::report::{Goldens, Shape};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Bytes of a block that has changed or has not.
const BLOCK: usize = 4096;

/// Begins a line that tells of changes to a disk.
const CHANGED: &str = "    changed: ";

/// Remarks of a server on a busy machine.
const SLOW: &str = " is slow: the others answer for it: ";

/// Variable by which all commands of a scene find its servers.
const RUNTIME: &str = "BRINDLE_RUNTIME_DIR";

/// Scenes of one golden file. Each begins with fresh copies of disks that are made once.
///
/// `a` is a RAID 5 of three, `b` and `c` are RAID 1, all of host `here`. `tank` is a pool, a mirror of two with the volume `one`.
struct Group {
    name: &'static str,
    dir: TempDir,
    scenes: usize,
    text: String,
}

impl Group {
    fn new(name: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let make = |command: &str, set: &str, count: usize, size: u64| {
            let members = files::members(dir.path(), set, count, size);
            run(command, &members).ended(0);
            members
        };
        let arrays = [("a", "-l 5 -c 64K", 3), ("b", "-l 1", 2), ("c", "-l 1", 2)];
        for (at, (set, flags, count)) in arrays.into_iter().enumerate() {
            let members = make(&format!("create {flags} -N here:{set}"), set, count, 4 * MIB);
            // A daemon goes through arrays in the order of their UUIDs.
            let uuid = Uuid::from_bytes([at as u8 + 1; 16]);
            members.iter().for_each(|member| limits::patch(member, |sb| sb.set_uuid = uuid));
        }
        let tank = make("pool create tank mirror", "tank", 2, 8 * MIB);
        let volume = ["--".into(), "tank/one".into(), "1M".into()];
        run("volume create --array", &[&tank[..], &volume].concat()).ok();
        Self { name, dir, scenes: 0, text: String::new() }
    }

    /// A scene with the disks of these sets.
    fn scene(&mut self, title: &str, sets: &str, play: impl FnOnce(&mut Scene)) {
        self.scenes += 1;
        let folder = self.dir.path().join(format!("scene{}", self.scenes));
        std::fs::create_dir_all(folder.join("disks")).unwrap();
        for from in std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            let file = from.file_name().unwrap().to_str().unwrap();
            if from.is_file() && sets.split_whitespace().any(|set| set == set_of(file)) {
                std::fs::copy(&from, folder.join("disks").join(file)).unwrap();
            }
        }
        let alike = Vec::new();
        let mut scene = Scene { folder, before: BTreeMap::new(), steps: Vec::new(), is_vague: false, alike };
        scene.prepared();
        play(&mut scene);
        self.text.push_str(&format!("# {title}\n\n{}\n", scene.steps.concat()));
        std::fs::remove_dir_all(scene.folder).unwrap();
    }

    /// All scenes are as the golden file has them.
    #[track_caller]
    fn hold(self) {
        Goldens::new(self.dir.path()).hold_text(&format!("starts/{}", self.name), &self.text);
    }
}

/// `a` of `a0.img`.
fn set_of(file: &str) -> &str {
    file.trim_end_matches(".img").trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Disks, settings and servers of one story, and its steps so far.
struct Scene {
    folder: PathBuf,
    /// Content of the disks at the end of the last step.
    before: BTreeMap<String, Vec<u8>>,
    steps: Vec<String>,
    /// The number of blocks that change depends on how far work in the background comes, so they are not told.
    is_vague: bool,
    /// Texts that differ from run to run, and the words for them.
    alike: Vec<(String, &'static str)>,
}

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn disk(&self, name: &str) -> PathBuf {
        self.path("disks").join(format!("{name}.img"))
    }

    fn runtime(&self) -> PathBuf {
        self.path("run")
    }

    /// Settings of a daemon that looks for disks in their folder.
    fn settings(&self, file: &str, lines: &str) {
        let head = format!("homehost = \"here\"\nwait = \"1ms\"\ndevices = [{:?}]\n", self.path("disks"));
        std::fs::write(self.path(file), head + lines).unwrap();
    }

    fn words(&self, command: &str) -> Vec<OsString> {
        let mut words = Vec::new();
        for word in command.split_whitespace() {
            if word.contains('%') {
                words.push(word.replace('%', &format!("{}/", self.folder.display())).into());
            } else if let Some(disk) = word.strip_prefix('@') {
                let mut named: Vec<PathBuf> = std::fs::read_dir(self.path("disks"))
                    .unwrap()
                    .map(|entry| entry.unwrap().path())
                    .filter(|path| {
                        let file = path.file_name().unwrap().to_str().unwrap();
                        file == format!("{disk}.img") || set_of(file) == disk
                    })
                    .collect();
                named.sort();
                assert!(!named.is_empty(), "{word}");
                words.extend(named.into_iter().map(OsString::from));
            } else {
                words.push(word.into());
            }
        }
        words
    }

    /// A command that ends by itself, and its exit status.
    fn runs(&mut self, command: &str) -> i32 {
        // One that serves, and should not, is a failure and no test without end.
        let mut program = Command::new("timeout");
        program.args(["-s", "KILL", "20"]).arg(program::path());
        program.args(self.words(command)).env(RUNTIME, self.runtime());
        let ran = Ran::of(program);
        let said = ran.text();
        let said: Vec<Value> = match serde_json::from_str(&said) {
            Ok(report) => vec![report],
            Err(_) => said.lines().map(line).collect(),
        };
        self.step(command, Some((ran.code, &ran.err)), said);
        ran.code
    }

    /// A command that is refused, and changes no member.
    #[track_caller]
    fn refused(&mut self, command: &str) {
        let code = self.runs(command);
        let step = self.steps.last().unwrap();
        assert!(code > 0 && !step.contains(CHANGED), "{step}");
    }

    /// A server that serves so many arrays and pools.
    #[track_caller]
    fn serves(&mut self, command: &str, count: usize) -> Server {
        let server = self.begins(command, count);
        self.tell_changes();
        server
    }

    /// The same of one that goes on to write by itself: its changes are seen at its end.
    #[track_caller]
    fn begins(&mut self, command: &str, count: usize) -> Server {
        let (by, words) = command.split_once(' ').unwrap();
        let mut server = Server::start_by(by, &self.runtime(), self.words(words), &[]);
        let mut said = vec![server.said.clone()];
        said.extend((1..count).map(|_| server.next_event()));
        self.told(command, None, said);
        server
    }

    /// Further words of a server that runs, up to one of this kind. What it writes meanwhile is seen at its end.
    fn says(&mut self, server: &mut Server, last: &str) {
        let mut said = Vec::new();
        while said.last().is_none_or(|event: &Value| event["event"] != last) {
            said.push(server.next_event());
        }
        self.told("it goes on", None, said);
    }

    /// The end of a server, by a signal if there is one.
    fn ends(&mut self, mut server: Server, signal: Option<Signal>) {
        if let Some(signal) = signal {
            server.send(signal);
        }
        let (code, err) = server.end();
        let said = server.rest();
        let by = match signal {
            Some(Signal::TERM) => "it ends by SIGTERM",
            Some(_) => "it ends by SIGKILL",
            None => "it ends by itself",
        };
        self.step(by, Some((code, &err)), said);
    }

    /// Keeps a step: its command or what came to pass, the exit status of one that has ended, its words, and changes to disks.
    fn step(&mut self, title: &str, ended: Option<(i32, &str)>, said: Vec<Value>) {
        self.told(title, ended, said);
        self.tell_changes();
    }

    fn tell_changes(&mut self) {
        let changed = self.changed();
        let step = self.steps.last_mut().unwrap();
        changed.iter().for_each(|words| step.push_str(&format!("{CHANGED}{words}\n")));
    }

    fn told(&mut self, title: &str, ended: Option<(i32, &str)>, said: Vec<Value>) {
        let mut text = self.settled(title);
        let err = ended.map_or("", |(code, err)| {
            text.push_str(&format!(": {code}"));
            err
        });
        text.push('\n');
        let goldens = Goldens::new(&self.folder);
        for mut event in said {
            self.settle(&mut event);
            // One that a slow machine brings about is not there then.
            let settled = match event {
                Value::String(line) => vec![line],
                event => {
                    let list = goldens.settled_report(json!({"events": [event]}), Shape::Exact);
                    list["events"].as_array().unwrap().iter().map(Value::to_string).collect()
                }
            };
            settled.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        for line in err.lines().filter(|line| !line.contains(SLOW)) {
            text.push_str(&format!("    ! {}\n", self.settled(line)));
        }
        self.steps.push(text);
    }

    fn settle(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.settled(text),
            Value::Array(list) => list.iter_mut().for_each(|one| self.settle(one)),
            Value::Object(object) => object.values_mut().for_each(|one| self.settle(one)),
            _ => {}
        }
    }

    /// Without the scene's folder, names and numbers of processes, and texts that are told to be alike.
    fn settled(&self, text: &str) -> String {
        let mut text = text.replace(&*self.folder.to_string_lossy(), "SCENE");
        for (from, to) in &self.alike {
            text = text.replace(from, to);
        }
        // A busy machine does not find out who uses it, and a program that another test starts just now may have it for a moment, too.
        if let (Some(begin), Some(end)) = (text.find(" (it is used by "), text.rfind(')')) {
            text.replace_range(begin..=end, "");
        }
        for mark in ["process ", "pid ", "checksum is ", "sums to "] {
            let mut parts = text.split(mark);
            let mut settled = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let digit = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
                let rest = part.trim_start_matches(digit);
                let number = if rest.len() < part.len() { "NUMBER" } else { "" };
                settled = [&*settled, mark, number, rest].concat();
            }
            text = settled;
        }
        text
    }

    /// Blocks of each disk that have changed since this was asked last, and the state that a member of an array has on record then.
    fn changed(&mut self) -> Vec<String> {
        let mut changed = Vec::new();
        for entry in std::fs::read_dir(self.path("disks")).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let now = std::fs::read(&path).unwrap();
            if let Some(before) = self.before.get(&file).filter(|before| **before != now) {
                let record = record(&now).map_or_else(String::new, |record| format!(" ({record})"));
                let blocks = if self.is_vague { "some".to_owned() } else { blocks(before, &now) };
                changed.push(format!("{file}: blocks {blocks}{record}"));
            }
            self.before.insert(file, now);
        }
        changed.sort();
        changed
    }

    /// Takes the disks as they are now: the test itself has changed them.
    fn prepared(&mut self) {
        let _ = self.changed();
    }
}

fn line(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Numbers of the blocks that differ, as `1, 7-9`.
fn blocks(before: &[u8], now: &[u8]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let differ = |at: &usize| {
        let block = |of: &[u8]| of.iter().skip(at * BLOCK).take(BLOCK).copied().collect::<Vec<u8>>();
        block(before) != block(now)
    };
    for at in (0..before.len().max(now.len()).div_ceil(BLOCK)).filter(differ) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => ranges.push((at, at)),
        }
    }
    let word = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The array's state as a member's superblock has it, without times and counts; nothing if there is none.
fn record(disk: &[u8]) -> Option<String> {
    let size = disk.len() as u64;
    let sb = probe_offsets(size).into_iter().find_map(|probe| {
        let bytes = disk.get(probe.offset as usize..)?.get(..SUPERBLOCK_BYTES)?;
        Superblock::parse(probe.version, bytes, size).ok()
    })?;
    let state = match sb.resync_offset {
        None => "clean".to_owned(),
        Some(at) => format!("in sync to {at}"),
    };
    let count = sb.raid_disks as usize;
    Some(format!("{state}, roles {:?}", sb.roles.iter().take(count).collect::<Vec<_>>()))
}
