//! A stock Debian kernel in QEMU, with members as its disks and a shell script as its only program.
//!
//! No root, no KVM and no network at run time: the kernels' packages are downloaded once, emulation boots them in three
//! to five seconds, and the members are plain files of the host. The kernel log and the script's output go to one
//! serial line, what the script reports to another, so that neither can garble the other.

mod accel;
mod apt;
mod bzimage;
mod cells;
mod cpio;
pub mod debian;
mod initiator;
mod initramfs;
mod kernel;
mod machine;
mod modules;
mod output;
mod report;
mod times;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

pub use kernel::Kernel;
pub use machine::Machine;
pub use report::{Failure, Report};

use crate::files;
use crate::tools::{self, Missing};
use accel::Accel;
use kernel::Unpacked;

/// Disks that one machine may have.
pub const MAX_DISKS: usize = 250;

/// Up to here each disk is a virtio device of its own, which takes a tenth of a second to be found. More are the units of
/// one virtio SCSI controller: hundreds of devices would take half a minute, and leave no interrupt for the serial lines.
const MAX_VIRTIO_BLK: usize = 6;

/// Room on the disk that takes what a script hands over to be hashed, in bytes. It takes none before it is written.
const OUTPUT: u64 = 64 << 30;

/// Where a machine with a network finds the host: what listens on `127.0.0.1` there answers here.
pub const HOST: &str = "10.0.2.2";

/// Everything that is needed to boot one kernel; found once per test binary.
#[derive(Debug)]
struct Parts {
    qemu: PathBuf,
    kernel: Unpacked,
    /// Uncompressed cpio archive; the script of each run is put behind it.
    initramfs: Vec<u8>,
}

fn parts(kernel: Kernel) -> Result<&'static Parts, Missing> {
    static PARTS: [OnceLock<Result<Parts, Missing>>; 3] = [const { OnceLock::new() }; 3];
    let find = || {
        let kernel = Unpacked::find(kernel)?;
        let initramfs = initramfs::build(&kernel.modules)?;
        Ok(Parts { qemu: tools::find("qemu-system-x86_64")?, kernel, initramfs })
    };
    PARTS[kernel as usize].get_or_init(find).as_ref().map_err(Clone::clone)
}

/// A machine about to be booted.
///
/// The script runs under `sh -eu` with busybox, mdadm and these helpers:
///
/// - `/dev/member/N` is disk N, from 0, in the order in which disks were added, with the serial number BRINDLE-N;
/// - `step NAME COMMAND...` runs a command and lets a failure name it;
/// - `put KEY VALUE` hands a value to the test;
/// - `sha DEVICE` prints what the test gets as the hash of the device's content.
///
/// ```no_run
/// use brindle_tests::vm::Vm;
/// let vm = Vm::new().expect("QEMU and a kernel").disks(["a.img", "b.img"]);
/// let report = vm.run("put version \"$(mdadm --version 2>&1)\"").expect("a script that ends well");
/// assert!(report["version"].starts_with("mdadm"));
/// ```
#[derive(Debug)]
#[must_use = "a machine does nothing before `run`"]
pub struct Vm {
    parts: &'static Parts,
    accel: Accel,
    disks: Vec<Disk>,
    network: Option<&'static [u8]>,
    file_system: Option<&'static [u8]>,
    initiator: Option<&'static [u8]>,
    nvme: Option<&'static [u8]>,
    /// Critical warnings of its NVMe drives, and the images of those that keep what is written.
    warnings: Vec<u8>,
    images: Vec<PathBuf>,
    /// The program `cells`, and drives of memory for it.
    cells: Option<Vec<u8>>,
    /// Programs beside, or in the place of its own.
    programs: Vec<u8>,
    /// Hands the machine over to systemd.
    debian: Option<Vec<u8>>,
    /// Mebibytes of memory.
    memory: u32,
    limit: Duration,
}

#[derive(Debug)]
struct Disk {
    image: PathBuf,
    /// As QEMU names it.
    format: &'static str,
    /// Logical and physical sector size in bytes.
    sector: u32,
    /// A unit of the SCSI controller, however few disks there are.
    scsi: bool,
}

impl Vm {
    /// A machine without disks, with the kernel of the release.
    ///
    /// # Errors
    /// Names what this machine lacks to run it.
    pub fn new() -> Result<Self, Missing> {
        Self::on(Kernel::Release)
    }

    /// A machine without disks, with this kernel.
    ///
    /// # Errors
    /// Names what this machine lacks to run it.
    pub fn on(kernel: Kernel) -> Result<Self, Missing> {
        let vm = Self::emulated(parts(kernel)?);
        Ok(Self { accel: accel::best()?, ..vm })
    }

    fn emulated(parts: &'static Parts) -> Self {
        let limit = Duration::from_secs(300);
        Self {
            parts,
            accel: Accel::Tcg,
            disks: Vec::new(),
            network: None,
            file_system: None,
            initiator: None,
            nvme: None,
            warnings: Vec::new(),
            images: Vec::new(),
            cells: None,
            programs: Vec::new(),
            debian: None,
            memory: 512,
            limit,
        }
    }

    /// Major and minor number of the kernel's version.
    pub fn version(&self) -> (u32, u32) {
        self.parts.kernel.version
    }

    /// Whether the kernel has linear arrays: they were taken out of 6.8, and came back with 6.14.
    pub fn has_linear(&self) -> bool {
        !((6, 8)..(6, 14)).contains(&self.version())
    }

    /// Adds raw images as disks, writable, with sectors of 512 bytes.
    ///
    /// # Panics
    /// With more than [`MAX_DISKS`].
    pub fn disks(self, images: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        self.disks_of(512, images)
    }

    /// Adds raw images as disks, writable, with logical and physical sectors of this size in bytes.
    ///
    /// # Panics
    /// With more than [`MAX_DISKS`].
    pub fn disks_of(mut self, sector: u32, images: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        self.disks.extend(images.into_iter().map(|p| Disk {
            image: p.as_ref().to_path_buf(),
            format: "raw",
            sector,
            scsi: false,
        }));
        assert!(self.disks.len() <= MAX_DISKS, "{} disks do not fit", self.disks.len());
        self
    }

    /// Adds raw images as disks that are units of the SCSI controller; the others stay what they are.
    ///
    /// # Panics
    /// With more than [`MAX_DISKS`].
    pub fn scsi_disks(self, images: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let others = self.disks.len();
        let mut vm = self.disks(images);
        vm.disks[others..].iter_mut().for_each(|disk| disk.scsi = true);
        vm
    }

    /// Gives all disks so far sectors of this size in bytes.
    pub fn sector(mut self, bytes: u32) -> Self {
        for disk in &mut self.disks {
            disk.sector = bytes;
        }
        self
    }

    /// Adds a network on which servers of this machine are reached at [`HOST`], the module nbd and `nbd-client`.
    ///
    /// # Errors
    /// `nbd-client` is not installed, or the kernel has no such modules.
    pub fn network(mut self) -> Result<Self, Missing> {
        static MORE: [OnceLock<Result<Vec<u8>, Missing>>; 2] = [const { OnceLock::new() }; 2];
        let more = MORE[self.parts.kernel.of as usize]
            .get_or_init(|| initramfs::network(&self.parts.kernel.modules))
            .as_ref()
            .map_err(Clone::clone)?;
        self.network = Some(more);
        Ok(self)
    }

    /// Adds the modules ext4 and fuse: such file systems can be mounted.
    ///
    /// # Errors
    /// If the program that unpacks its package is missing.
    pub fn file_system(mut self) -> Result<Self, Missing> {
        static MORE: [OnceLock<Result<Vec<u8>, Missing>>; 2] = [const { OnceLock::new() }; 2];
        let more = MORE[self.parts.kernel.of as usize]
            .get_or_init(|| initramfs::file_system(&self.parts.kernel.modules))
            .as_ref()
            .map_err(Clone::clone)?;
        self.file_system = Some(more);
        Ok(self)
    }

    /// Adds all that an iSCSI initiator needs: a network, ext4, open-iscsi, `dmsetup` with multipath, and `fio`.
    ///
    /// # Errors
    /// A program is not installed, or a package can't be downloaded.
    pub fn initiator(self) -> Result<Self, Missing> {
        static MORE: [OnceLock<Result<Vec<u8>, Missing>>; 2] = [const { OnceLock::new() }; 2];
        let mut vm = self.network()?.file_system()?;
        let more = MORE[vm.parts.kernel.of as usize]
            .get_or_init(|| initramfs::initiator(&vm.parts.kernel.modules, &initiator::open_iscsi()?))
            .as_ref()
            .map_err(Clone::clone)?;
        vm.initiator = Some(more);
        Ok(vm)
    }

    /// Adds NVMe drives, empty ones, that keep SMART's log, and `smartctl`. Each has one of these critical warnings; 0 is none. They
    /// appear as `/dev/nvme0n1` and so on when they like, and in no promised order: number N has the serial number NVME-N.
    ///
    /// # Errors
    /// `smartctl` is not installed, or a module's package can't be unpacked.
    pub fn nvme(mut self, warnings: &[u8]) -> Result<Self, Missing> {
        static MORE: [OnceLock<Result<Vec<u8>, Missing>>; 2] = [const { OnceLock::new() }; 2];
        let more = MORE[self.parts.kernel.of as usize]
            .get_or_init(|| initramfs::nvme(&self.parts.kernel.modules))
            .as_ref()
            .map_err(Clone::clone)?;
        self.nvme = Some(more);
        self.warnings = warnings.to_vec();
        Ok(self)
    }

    /// Has the first of its NVMe drives keep what is written in these images.
    pub fn nvme_images(mut self, images: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        self.images.extend(images.into_iter().map(|image| image.as_ref().to_path_buf()));
        self
    }

    /// Adds drives of memory that the script makes (`null_blk`, by configfs), and the program `cells`, which counts the bytes that md moves of
    /// its members: see `cells.c`.
    ///
    /// # Errors
    /// There is no compiler of C, or a module's package can't be unpacked.
    pub fn cells(mut self) -> Result<Self, Missing> {
        self.cells = Some(initramfs::cells(&self.parts.kernel.modules, &cells::program()?)?);
        Ok(self)
    }

    /// Has these programs be those of packages of another release, that were unpacked in one folder with the libraries that they need.
    pub fn programs_of(mut self, unpacked: &Path, programs: &[&str]) -> Self {
        self.programs.extend(initramfs::others(unpacked, programs));
        self
    }

    /// Adds a program of this machine, with the libraries that it needs.
    pub fn program(mut self, name: &str, path: &Path) -> Self {
        self.programs.extend(initramfs::program(name, path));
        self
    }

    /// Makes the machine a whole Debian with systemd, udev and mdadm, on a disk of [`debian::disk`], which is disk 0. The script is run by
    /// bash, as one of its services, in `/run/test`, where the files of `payload` are; then systemd powers off.
    ///
    /// # Errors
    /// Programs or modules of its kernel are missing.
    ///
    /// # Panics
    /// If it has disks already.
    pub fn debian(self, disk: &Path, payload: &[(String, Vec<u8>)]) -> Result<Self, Missing> {
        let mut vm = self.network()?.file_system()?;
        assert!(vm.disks.is_empty(), "its own is the first disk");
        vm.disks.push(Disk { image: disk.to_path_buf(), format: "qcow2", sector: 512, scsi: false });
        vm.debian = Some(debian::handover(payload));
        Ok(vm)
    }

    /// Gives it so many mebibytes of memory; 512 if not said.
    pub fn memory(mut self, mebibytes: u32) -> Self {
        self.memory = mebibytes;
        self
    }

    /// How long the machine may run before it counts as hung; five minutes if not said.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Boots, runs `script` to its end and powers off.
    ///
    /// # Errors
    /// The script failed, the kernel panicked or complained, or time ran out; with the log of all that happened.
    ///
    /// # Panics
    /// If the host cannot start QEMU or write temporary files.
    pub fn run(self, script: &str) -> Result<Report, Failure> {
        self.start(script).finish()
    }

    /// Switches the machine on, which runs `script` and powers off, and does not wait.
    ///
    /// # Panics
    /// If the host cannot start QEMU or write temporary files.
    pub fn start(self, script: &str) -> Machine {
        let dir = tempfile::tempdir().expect("a folder for the machine");
        let initramfs = dir.path().join("initramfs");
        let (cells, programs, debian) = (self.cells.as_deref(), &*self.programs, self.debian.as_deref());
        let more = [self.network, self.file_system, self.initiator, self.nvme, cells, Some(programs), debian]
            .map(Option::unwrap_or_default)
            .concat();
        let script = initramfs::script(script, self.disks.len());
        std::fs::write(&initramfs, [&self.parts.initramfs[..], &more, &script].concat())
            .expect("the initramfs is written");
        files::sparse(&dir.path().join(machine::OUTPUT), OUTPUT);
        let command = self.command(&initramfs, dir.path());
        Machine::start(command, dir, self.limit)
    }

    /// QEMU, with its files in `dir`.
    fn command(&self, initramfs: &Path, dir: &Path) -> Command {
        let mut qemu = Command::new(&self.parts.qemu);
        qemu.args(self.accel.arguments(self.version()));
        qemu.arg("-m").arg(self.memory.to_string());
        qemu.args(["-no-reboot", "-nodefaults", "-nographic"]);
        qemu.arg("-kernel").arg(&self.parts.kernel.image).arg("-initrd").arg(initramfs);
        // A panic or an oops ends the machine at once instead of hanging it until the limit. On a busy host an emulated
        // timer may be late at the moment at which the kernel tries it, which would be such a panic. Workarounds for faults of
        // processors take an emulated one an eighth of its time; nor is there another clock that its own is to be held against.
        qemu.args([
            "-append",
            "console=ttyS0 panic=-1 oops=panic no_timer_check quiet loglevel=5 rdinit=/init \
             mitigations=off nokaslr tsc=reliable",
        ]);
        for line in [machine::CONSOLE, machine::RESULTS] {
            qemu.arg("-serial").arg(format!("file:{}", dir.join(line).display()));
        }
        let few = self.disks.iter().filter(|disk| !disk.scsi).count() <= MAX_VIRTIO_BLK;
        if !few || self.disks.iter().any(|disk| disk.scsi) {
            qemu.args(["-device", "virtio-scsi-pci,id=scsi"]);
        }
        let output = Disk { image: dir.join(machine::OUTPUT), format: "raw", sector: 512, scsi: false };
        for (i, disk) in self.disks.iter().chain([&output]).enumerate() {
            // No flush reaches the host's disk: it is the emulated machine that may crash, never the host.
            let path = disk.image.display().to_string().replace(',', ",,");
            qemu.arg("-drive").arg(format!(
                "file={path},if=none,id=d{i},format={},cache=unsafe,discard=unmap",
                disk.format
            ));
            let device = match few && !disk.scsi {
                true => "virtio-blk-pci".to_owned(),
                false => format!("scsi-hd,bus=scsi.0,scsi-id=0,lun={i}"),
            };
            qemu.arg("-device").arg(format!(
                "{device},serial=BRINDLE-{i},drive=d{i},logical_block_size={sector},physical_block_size={sector}",
                sector = disk.sector
            ));
        }
        for (i, warning) in self.warnings.iter().enumerate() {
            let content = match self.images.get(i) {
                Some(image) => format!("file,filename={}", image.display().to_string().replace(',', ",,")),
                None => "null-co,size=16777216,read-zeroes=on".to_owned(),
            };
            qemu.arg("-blockdev").arg(format!("{content},node-name=nvme{i}"));
            let device = format!("nvme,drive=nvme{i},serial=NVME-{i},smart_critical_warning={warning}");
            qemu.arg("-device").arg(device);
        }
        if self.network.is_some() {
            qemu.args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"]);
        }
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        qemu
    }
}
