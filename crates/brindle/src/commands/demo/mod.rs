//! The main job, start to end, on plain files: create, serve, write, lose two members under load, read back.

mod content;
mod load;
mod narration;

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brindle_export::nbd;
use sha2::{Digest, Sha256};

use crate::base::executable;
use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::flags::cli::Demo;
use content::DemoContent;
use narration::{Story, rate};

const MEMBERS: usize = 6;
const CHUNK: &str = "64K";
const NAME: &str = "demo";
/// The members that die: not neighbours, so that both data and parity are lost.
const VICTIMS: [usize; 2] = [1, 4];

/// A connection to the server, as any other client's.
type Client = nbd::client::Client<UnixStream>;

/// Why the demo can't go on.
#[derive(Debug)]
struct Trouble(String);

impl Trouble {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        Self::when(doing)
    }

    fn when<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> Self {
        move |error| Self(format!("{doing}: {error}"))
    }
}

/// Where the demo lives and with which program it works.
struct Stage {
    program: PathBuf,
    folder: PathBuf,
    socket: PathBuf,
    /// Ours to remove.
    is_temporary: bool,
}

pub(crate) fn demo(args: &Demo) -> Result<(), Failure> {
    let stage = Stage::set(args).map_err(|trouble| Failure::Demo(trouble.0))?;
    let result = play(&stage, args.member_size);
    if stage.is_temporary && !args.keep {
        let _ = fs::remove_dir_all(&stage.folder);
    }
    result.map_err(|trouble| Failure::Demo(trouble.0))
}

fn play(stage: &Stage, member_size: Bytes) -> Result<(), Trouble> {
    let story = Story::begin(&stage.folder, MEMBERS, member_size);
    let usable = member_size.0 * (MEMBERS as u64 - 2);

    story.step("Pack something worth keeping");
    let content = content::make(&stage.folder, usable / 8 * 5 / 4096 * 4096, &stage.program)?;
    let hash = digest(&content.bytes);
    story.fact(&format!("{}, {}", content.what, Bytes(content.bytes.len() as u64)));
    story.proof("sha256", &hash);

    story.step("Create a RAID 6 of six plain files");
    stage.create(member_size)?;
    story.done(&format!("two parity blocks in every row, chunk {CHUNK}"));

    story.step("Serve it over NBD on a Unix socket");
    let mut server = Server::start(stage)?;
    let mut client = connect(&stage.socket)?;
    story.done(&format!("export of {}", Bytes(client.size())));

    story.step("Write the content through the socket, and read it back");
    let took = timed(|| write_all(&mut client, &content.bytes))?;
    story.fact(&format!("written and flushed   {}", rate(content.bytes.len(), took)));
    verify(&story, &mut client, &content, &hash, "read back")?;

    story.step("Fail two members while a client reads and writes");
    let bytes = Arc::new(content.bytes);
    let load = load::start(stage.socket.clone(), Arc::clone(&bytes), bytes.len() as u64);
    for victim in VICTIMS {
        std::thread::sleep(Duration::from_millis(400));
        stage.run(&["fail", NAME, &stage.member(victim).to_string_lossy()])?;
        story.fact(&format!("m{victim} failed"));
    }
    std::thread::sleep(Duration::from_millis(400));
    let tally = load.finish()?;
    story.done(&format!(
        "{} reads compared and {} writes acknowledged in {:.1} s, none refused, none wrong",
        tally.reads, tally.writes, tally.seconds
    ));

    story.step("Verify again, degraded");
    let content = DemoContent { bytes: Arc::unwrap_or_clone(bytes), ..content };
    verify(&story, &mut client, &content, &hash, "read with two members gone")?;
    let blocks = tally.verify(|at, into| client.read(at, into).map_err(Trouble::when("reading")))?;
    story
        .done(&format!("all {blocks} blocks that were written meanwhile hold their last acknowledged write"));
    client.close().map_err(Trouble::when("closing"))?;

    story.step("Stop, and throw the two dead members away");
    stage.run(&["stop", NAME])?;
    server.wait()?;
    for victim in VICTIMS {
        fs::remove_file(stage.member(victim)).map_err(Trouble::io("removing a member"))?;
    }
    story.done("drained, flushed, marked clean");

    story.step("Read the content offline from the four survivors");
    offline(stage, &story, &content, &hash)?;
    story.end(&stage.commands(member_size, content.bytes.len()));
    Ok(())
}

/// Connects and chooses the default export.
fn connect(socket: &Path) -> Result<Client, Trouble> {
    let stream = UnixStream::connect(socket).map_err(Trouble::io("connecting to the server"))?;
    nbd::client::Client::connect(stream, "").map_err(Trouble::when("choosing the export"))
}

fn write_all(client: &mut Client, bytes: &[u8]) -> Result<(), Trouble> {
    client.write(0, bytes).and_then(|()| client.flush()).map_err(Trouble::when("writing"))
}

fn verify(
    story: &Story,
    client: &mut Client,
    content: &DemoContent,
    hash: &str,
    how: &str,
) -> Result<(), Trouble> {
    let mut back = vec![0; content.bytes.len()];
    let took = timed(|| client.read(0, &mut back).map_err(Trouble::when("reading")))?;
    let found = digest(&back);
    story.fact(&format!("{how:<21} {}", rate(back.len(), took)));
    same(story, hash, &found)
}

/// `brindle cat` of the survivors, hashed; and the file system checked, if it is one.
fn offline(stage: &Stage, story: &Story, content: &DemoContent, hash: &str) -> Result<(), Trouble> {
    let survivors = stage.survivors();
    let length = content.bytes.len().to_string();
    let mut args = vec!["cat", "--length", &length];
    args.extend(survivors.iter().map(String::as_str));
    let began = Instant::now();
    let output = stage.run(&args)?;
    story.fact(&format!("brindle cat           {}", rate(output.stdout.len(), began.elapsed())));
    same(story, hash, &digest(&output.stdout))?;
    if content.is_ext4 {
        let image = stage.folder.join("rescued.img");
        fs::write(&image, &output.stdout).map_err(Trouble::io("writing the rescued image"))?;
        match content::fsck(&image) {
            Some(true) => story.done("e2fsck finds nothing to complain of in the rescued file system"),
            Some(false) => return Err(Trouble::new("e2fsck finds errors in the rescued file system")),
            None => {}
        }
        content::remove(&image);
    }
    Ok(())
}

fn same(story: &Story, expected: &str, found: &str) -> Result<(), Trouble> {
    if expected != found {
        return Err(Trouble::new(format!("the content changed: sha256 {found} instead of {expected}")));
    }
    story.proof("sha256", found);
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), Trouble>) -> Result<Duration, Trouble> {
    let began = Instant::now();
    work().map(|()| began.elapsed())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Stage {
    fn set(args: &Demo) -> Result<Self, Trouble> {
        let program = executable::program().map_err(Trouble::io("finding this program"))?;
        let (folder, is_temporary) = match &args.dir {
            Some(folder) => (folder.clone(), false),
            None => (std::env::temp_dir().join(format!("brindle-demo-{}", std::process::id())), true),
        };
        fs::create_dir_all(&folder).map_err(|e| Trouble::new(format!("{}: {e}", folder.display())))?;
        let folder = folder.canonicalize().map_err(Trouble::io("finding the demo's folder"))?;
        Ok(Self { program, socket: folder.join("nbd.sock"), folder, is_temporary })
    }

    fn member(&self, number: usize) -> PathBuf {
        self.folder.join(format!("m{number}"))
    }

    fn members(&self) -> Vec<String> {
        (0..MEMBERS).map(|number| self.member(number).to_string_lossy().into_owned()).collect()
    }

    fn survivors(&self) -> Vec<String> {
        let alive = (0..MEMBERS).filter(|number| !VICTIMS.contains(number));
        alive.map(|number| self.member(number).to_string_lossy().into_owned()).collect()
    }

    fn create(&self, member_size: Bytes) -> Result<(), Trouble> {
        for number in 0..MEMBERS {
            let path = self.member(number);
            let file =
                fs::File::create_new(&path).map_err(|e| Trouble::new(format!("{}: {e}", path.display())))?;
            file.set_len(member_size.0).map_err(Trouble::io("sizing a member"))?;
        }
        let members = self.members();
        let mut args = vec!["create", "--level", "6", "--chunk", CHUNK, "--name", NAME];
        args.extend(members.iter().map(String::as_str));
        self.run(&args).map(drop)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("BRINDLE_RUNTIME_DIR", &self.folder).stdin(executable::nothing());
        command
    }

    /// Runs this program to its end.
    fn run(&self, args: &[&str]) -> Result<Output, Trouble> {
        let output = self.command(args).output().map_err(Trouble::io("running brindle"))?;
        if output.status.success() {
            return Ok(output);
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Trouble::new(format!("brindle {}: {why}", args.first().unwrap_or(&""))))
    }

    /// The commands of the demo, to be repeated by hand.
    fn commands(&self, member_size: Bytes, length: usize) -> Vec<String> {
        let size = member_size.0 >> 20;
        vec![
            format!("truncate -s {size}M m0 m1 m2 m3 m4 m5"),
            format!("brindle create --level 6 --chunk {CHUNK} --name {NAME} m0 m1 m2 m3 m4 m5"),
            format!("brindle serve m0 m1 m2 m3 m4 m5 --nbd unix:/tmp/{NAME}.sock &"),
            format!("nbdcopy IMAGE 'nbd+unix:///?socket=/tmp/{NAME}.sock'"),
            format!("brindle fail {NAME} m1; brindle fail {NAME} m4; brindle status {NAME}"),
            format!("brindle stop {NAME}"),
            format!("brindle cat --length {length} m0 m2 m3 m5 | sha256sum"),
        ]
    }
}

/// A running `brindle serve`; killed if the demo ends before it does.
struct Server(Child);

impl Server {
    fn start(stage: &Stage) -> Result<Self, Trouble> {
        let address = format!("unix:{}", stage.socket.display());
        let members = stage.members();
        let mut args = vec!["serve", "--nbd", &address];
        args.extend(members.iter().map(String::as_str));
        let child = stage
            .command(&args)
            .stdout(executable::nothing())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Trouble::io("starting the server"))?;
        let mut server = Self(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_live(&stage.socket) {
            if server.0.try_wait().map_err(Trouble::io("watching the server"))?.is_some() {
                return Err(server.last_words());
            }
            if Instant::now() > deadline {
                return Err(Trouble::new(
                    "the server did not open its socket within 20 s: see its output above",
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn last_words(&mut self) -> Trouble {
        let mut words = String::new();
        if let Some(mut pipe) = self.0.stderr.take() {
            let _ = io::Read::read_to_string(&mut pipe, &mut words);
        }
        Trouble::new(format!("the server ended: {}", words.trim()))
    }

    fn wait(&mut self) -> Result<(), Trouble> {
        let status = self.0.wait().map_err(Trouble::io("waiting for the server"))?;
        if status.success() { Ok(()) } else { Err(self.last_words()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn is_live(socket: &Path) -> bool {
    socket.exists() && std::os::unix::net::UnixStream::connect(socket).is_ok()
}
