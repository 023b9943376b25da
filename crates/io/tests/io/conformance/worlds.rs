//! The worlds that must behave alike; only how members and connections come to be differs.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{self, PathBuf};
use std::process::Command;
use std::rc::Rc;

use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::emulated::{BufferedFile, Emulated};
use brindle_io::memory::Memory;
use brindle_io::sim::{Curve, Hostility, Model, Path, Sim, Stations};
use brindle_io::uring::Uring;
use brindle_io::{MemberId, Reactor, SocketId};
use brindle_testkit::skip::Missing;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tempfile::TempDir;

/// The interface of a world for these tests. Handles: the executor owns the reactor.
pub(crate) trait World: Sized + 'static {
    /// The world, or why it is not available here.
    fn new() -> Result<Self, Missing>;
    fn reactor(&self) -> Box<dyn Reactor>;
    /// A member that reads as zeroes.
    fn member(&self, bytes: u64) -> MemberId;
    fn close_member(&self, member: MemberId);
    fn listen(&self) -> SocketId;
    fn connect(&self, listener: SocketId) -> SocketId;
    /// A pair of ports: what is sent to one comes to the other, message by message.
    fn ports(&self) -> [SocketId; 2];
    /// Bytes sent count as taken before anybody has received them: TCP.
    fn takes_at_once(&self) -> bool {
        false
    }
    /// Members tell of every hole.
    fn tells_holes(&self) -> bool {
        true
    }
}

/// A world whose members do what a test wants.
pub(crate) trait AtCommand: World {
    /// A member of zeroes with blocks of this size.
    fn member_of_blocks(&self, bytes: u64, block: u32) -> MemberId;
    /// Many of the transfers that follow come back short.
    fn shorten(&self, member: MemberId);
    /// Nothing that the member is asked ends any more.
    fn hang(&self, member: MemberId);
    /// The member answers again.
    fn release(&self, member: MemberId);
}

/// A world in which a disk can be pulled: its size is 0 then, and its errors are those of a full file system.
pub(crate) trait Pulls: World {
    /// A member that will be pulled.
    fn to_be_pulled(&self, bytes: u64) -> MemberId {
        self.member(bytes)
    }
    fn pull(&self, member: MemberId);
}

impl Pulls for Memory {
    fn pull(&self, member: MemberId) {
        Memory::pull(self, member);
    }
}

impl Pulls for Sim {
    fn pull(&self, member: MemberId) {
        Sim::pull(self, member);
    }
}

impl Pulls for Loops {
    fn to_be_pulled(&self, bytes: u64) -> MemberId {
        let (file, kept) = (self.files.file(bytes), self.files.path());
        let device = LoopDevice::new(&file).unwrap();
        // Of a loop device whose file has a name that file is looked at; of a disk there is none.
        std::fs::hard_link(&file, &kept).unwrap();
        std::fs::remove_file(file).unwrap();
        let member = self.files.open(&device.0);
        self.pulled.borrow_mut().push((member, device.0.clone(), kept));
        self.loops.borrow_mut().push(device);
        member
    }
    fn pull(&self, member: MemberId) {
        let pulled = self.pulled.borrow();
        let (_, device, file) = pulled.iter().find(|(id, ..)| *id == member).unwrap();
        File::options().write(true).open(file).unwrap().set_len(0).unwrap();
        assert!(Command::new("losetup").arg("--set-capacity").arg(device).status().unwrap().success());
    }
}

impl<W: OverFiles + Pulls> Pulls for OnThreads<W> {
    fn to_be_pulled(&self, bytes: u64) -> MemberId {
        self.0.to_be_pulled(bytes)
    }
    fn pull(&self, member: MemberId) {
        self.0.pull(member);
    }
}

impl AtCommand for Memory {
    fn member_of_blocks(&self, bytes: u64, block: u32) -> MemberId {
        let member = self.add_ram(bytes);
        self.set_info(member, |info| info.logical_block = block);
        member
    }
    fn shorten(&self, member: MemberId) {
        Memory::shorten(self, member, 40);
    }
    fn hang(&self, member: MemberId) {
        Memory::hang(self, member);
    }
    fn release(&self, member: MemberId) {
        Memory::release(self, member);
    }
}

impl AtCommand for Sim {
    fn member_of_blocks(&self, bytes: u64, block: u32) -> MemberId {
        self.add_blank_drive(Model::nvme().with_block(block), bytes)
    }
    fn shorten(&self, _: MemberId) {
        self.set_hostility(Hostility { short_transfers: 800, ..Hostility::default() });
    }
    fn hang(&self, member: MemberId) {
        self.afflict(member, |faults| faults.hangs = true);
    }
    fn release(&self, member: MemberId) {
        self.afflict(member, |faults| faults.hangs = false);
    }
}

impl World for Memory {
    fn new() -> Result<Self, Missing> {
        Ok(Memory::new())
    }
    fn reactor(&self) -> Box<dyn Reactor> {
        Box::new(self.clone())
    }
    fn member(&self, bytes: u64) -> MemberId {
        self.add_ram(bytes)
    }
    fn close_member(&self, member: MemberId) {
        self.kill(member);
    }
    fn listen(&self) -> SocketId {
        Memory::listen(self)
    }
    fn connect(&self, listener: SocketId) -> SocketId {
        Memory::connect(self, listener)
    }
    fn ports(&self) -> [SocketId; 2] {
        Memory::ports(self)
    }
}

impl World for Sim {
    fn new() -> Result<Self, Missing> {
        Ok(Sim::new(7))
    }
    fn reactor(&self) -> Box<dyn Reactor> {
        Box::new(self.clone())
    }
    fn member(&self, bytes: u64) -> MemberId {
        self.add_blank_drive(Model::nvme(), bytes)
    }
    fn close_member(&self, member: MemberId) {
        self.kill(member);
    }
    fn listen(&self) -> SocketId {
        Sim::listen(self)
    }
    fn tells_holes(&self) -> bool {
        false
    }
    fn connect(&self, listener: SocketId) -> SocketId {
        Sim::connect(self, listener)
    }
    fn ports(&self) -> [SocketId; 2] {
        Sim::ports(self)
    }
}

/// The ring over regular files and Unix sockets.
pub(crate) struct Files {
    uring: Uring,
    dir: Rc<TempDir>,
    names: RefCell<u32>,
}

impl Files {
    fn path(&self) -> PathBuf {
        let mut names = self.names.borrow_mut();
        *names += 1;
        self.dir.path().join(names.to_string())
    }

    fn file(&self, bytes: u64) -> PathBuf {
        let path = self.path();
        File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    fn open(&self, path: &path::Path) -> MemberId {
        self.uring.add_member(OpenDevice::open(path, DeviceAccess::Write).unwrap())
    }
}

impl From<Uring> for Files {
    fn from(uring: Uring) -> Self {
        Self { uring, dir: Rc::new(TempDir::new().unwrap()), names: RefCell::default() }
    }
}

impl World for Files {
    fn new() -> Result<Self, Missing> {
        Ok(Uring::new().map_err(|error| Missing::new(error.to_string()))?.into())
    }
    fn reactor(&self) -> Box<dyn Reactor> {
        Box::new(self.uring.clone())
    }
    fn member(&self, bytes: u64) -> MemberId {
        self.open(&self.file(bytes))
    }
    fn close_member(&self, member: MemberId) {
        self.uring.close_member(member);
    }
    fn listen(&self) -> SocketId {
        self.uring.listen_unix(self.dir.path().join("socket")).unwrap()
    }
    fn connect(&self, _: SocketId) -> SocketId {
        self.uring.add_stream(UnixStream::connect(self.dir.path().join("socket")).unwrap())
    }
    fn ports(&self) -> [SocketId; 2] {
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (one, other) = rustix::net::socketpair(unix, packets, SocketFlags::CLOEXEC, None).unwrap();
        [one, other].map(|port| self.uring.add_port(port).unwrap())
    }
}

/// A world over files, whichever carries out their operations.
pub(crate) trait OverFiles: World {
    fn over(files: Files) -> Result<Self, Missing>;
}

impl OverFiles for Files {
    fn over(files: Files) -> Result<Self, Missing> {
        Ok(files)
    }
}

impl OverFiles for Loops {
    fn over(files: Files) -> Result<Self, Missing> {
        // The others of this suite need no root.
        let missing = |why| Missing::new(format!("loop devices, which need root: {why}"));
        LoopDevice::new(&files.file(1 << 20)).map_err(missing)?;
        Ok(Self { files, loops: RefCell::default(), pulled: RefCell::default() })
    }
}

/// The same world without a ring.
pub(crate) struct OnThreads<W>(W);

impl<W: OverFiles> World for OnThreads<W> {
    fn new() -> Result<Self, Missing> {
        W::over(Uring::on_threads().unwrap().into()).map(Self)
    }
    fn reactor(&self) -> Box<dyn Reactor> {
        self.0.reactor()
    }
    fn member(&self, bytes: u64) -> MemberId {
        self.0.member(bytes)
    }
    fn close_member(&self, member: MemberId) {
        self.0.close_member(member);
    }
    fn listen(&self) -> SocketId {
        self.0.listen()
    }
    fn connect(&self, listener: SocketId) -> SocketId {
        self.0.connect(listener)
    }
    fn ports(&self) -> [SocketId; 2] {
        self.0.ports()
    }
    fn takes_at_once(&self) -> bool {
        self.0.takes_at_once()
    }
    fn tells_holes(&self) -> bool {
        self.0.tells_holes()
    }
}

/// The same files as drives of a model, which is a quick one.
pub(crate) struct Drives {
    files: Files,
    emulated: Emulated,
}

impl World for Drives {
    fn new() -> Result<Self, Missing> {
        let files = Files::new()?;
        Ok(Self { emulated: Emulated::new(files.uring.clone()), files })
    }
    fn reactor(&self) -> Box<dyn Reactor> {
        Box::new(self.emulated.clone())
    }
    fn member(&self, bytes: u64) -> MemberId {
        let device = OpenDevice::open(self.files.file(bytes), DeviceAccess::Write).unwrap();
        let file = BufferedFile::of(&device).unwrap();
        let member = self.files.uring.add_member(device);
        let path = Path {
            latency: Curve::flat(20_000),
            stream: Curve::flat(5000),
            occupancy: Curve::flat(1000),
            streamed: None,
            spread: 20,
        };
        let stations = Stations {
            units: 4,
            write: path.clone(),
            read: path,
            mixed: Vec::new(),
            flush: 10_000,
            uplink: 0,
            volatile_cache: false,
            platter: None,
        };
        self.emulated.emulate(member, file, &Rc::new(stations));
        member
    }
    fn close_member(&self, member: MemberId) {
        self.files.close_member(member);
    }
    fn listen(&self) -> SocketId {
        self.files.listen()
    }
    fn connect(&self, listener: SocketId) -> SocketId {
        self.files.connect(listener)
    }
    fn ports(&self) -> [SocketId; 2] {
        self.files.ports()
    }
}

/// The ring over loop devices and TCP. Field order: members are closed before their loop devices are let go.
pub(crate) struct Loops {
    files: Files,
    loops: RefCell<Vec<LoopDevice>>,
    /// Members that can be pulled, each with its loop device and the file of that.
    pulled: RefCell<Vec<(MemberId, PathBuf, PathBuf)>>,
}

struct LoopDevice(PathBuf);

impl LoopDevice {
    fn new(file: &path::Path) -> Result<Self, String> {
        let made = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(file)
            .output()
            .map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).trim().to_owned());
        }
        Ok(Self(String::from_utf8_lossy(&made.stdout).trim().into()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

impl World for Loops {
    fn new() -> Result<Self, Missing> {
        Self::over(Files::new()?)
    }
    fn reactor(&self) -> Box<dyn Reactor> {
        self.files.reactor()
    }
    fn member(&self, bytes: u64) -> MemberId {
        let device = LoopDevice::new(&self.files.file(bytes)).unwrap();
        let member = self.files.open(&device.0);
        self.loops.borrow_mut().push(device);
        member
    }
    fn close_member(&self, member: MemberId) {
        self.files.close_member(member);
    }
    fn listen(&self) -> SocketId {
        self.files.uring.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap()
    }
    fn takes_at_once(&self) -> bool {
        true
    }
    fn tells_holes(&self) -> bool {
        false
    }
    fn connect(&self, listener: SocketId) -> SocketId {
        let address = self.files.uring.local_addr(listener).unwrap();
        self.files.uring.add_stream(std::net::TcpStream::connect(address).unwrap())
    }
    fn ports(&self) -> [SocketId; 2] {
        self.files.ports()
    }
}
