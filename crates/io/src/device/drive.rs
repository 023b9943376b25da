//! The drive of a device: the data printed on it, so that one knows which to pull.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Names that tell a drive from others of its kind. All that the kernel and udev know; texts are the drive's own, and may hold anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// The model, as its maker names it.
    pub model: Option<String>,
    /// The drive's serial number.
    pub serial: Option<String>,
    /// The drive's name in /dev/disk/by-id, of the partition if it is one.
    pub by_id: Option<String>,
    /// Where it is plugged in: the slot of its enclosure, or of PCI, as the kernel names it; else its name in /dev/disk/by-path.
    pub slot: Option<String>,
}

/// Names in /dev/disk/by-id that say nothing that is printed on a drive.
const UNPRINTED: [&str; 6] = ["wwn-", "nvme-eui.", "nvme-uuid.", "scsi-3", "dm-", "md-"];

impl Drive {
    /// The drive of the device of this name, or of the disk that has it as a partition; `None` if nothing is known,
    /// as for files.
    pub fn of(device: &Path) -> Option<Self> {
        let found = fs::metadata(device).ok().filter(|found| found.file_type().is_block_device())?;
        let number = found.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        Self::below(Path::new("/"), major, minor, |link| {
            fs::metadata(link).is_ok_and(|to| to.rdev() == number)
        })
    }

    /// `root` is the file system's; `is_it` says whether a link leads to the device.
    fn below(root: &Path, major: u32, minor: u32, is_it: impl Fn(&Path) -> bool) -> Option<Self> {
        let own = root.join(format!("sys/dev/block/{major}:{minor}")).canonicalize().ok()?;
        let disk = if own.join("partition").exists() { own.parent()?.to_owned() } else { own };
        let text = |name: &str| Some(clean(&fs::read(disk.join(name)).ok()?)).filter(|text| !text.is_empty());
        let serial = text("device/serial").or_else(|| text("serial")).or_else(|| {
            // A page of SCSI's vital product data: a header of 4 bytes, then the number.
            let page = fs::read(disk.join("device/vpd_pg80")).ok()?;
            Some(clean(page.get(4..)?)).filter(|text| !text.is_empty())
        });
        let links = root.join("dev/disk");
        let slot = enclosure(&disk).or_else(|| pci(root, &disk));
        let drive = Self {
            model: text("device/model"),
            serial,
            by_id: by_id(&links.join("by-id"), &is_it),
            slot: slot.or_else(|| by_id(&links.join("by-path"), &is_it)),
        };
        let is_known = drive.model.is_some() || drive.serial.is_some() || drive.by_id.is_some();
        is_known.then_some(drive)
    }
}

/// The slot of the enclosure that has the disk, which driver `ses` links to it.
fn enclosure(disk: &Path) -> Option<String> {
    let mut entries = fs::read_dir(disk.join("device")).ok()?.flatten();
    let slot = entries
        .find_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("enclosure_device:")?.to_owned()))?;
    Some(clean(slot.as_bytes())).filter(|slot| !slot.is_empty())
}

/// The slot of PCI of an NVMe drive. That of any other drive's controller says nothing of the drive.
fn pci(root: &Path, disk: &Path) -> Option<String> {
    let place = disk.to_str().filter(|place| place.contains("/nvme/"))?;
    let mut slots = fs::read_dir(root.join("sys/bus/pci/slots")).ok()?.flatten();
    slots.find_map(|slot| {
        let address = clean(&fs::read(slot.path().join("address")).ok()?);
        let has_it = !address.is_empty() && place.contains(&format!("/{address}."));
        has_it.then(|| Some(format!("PCI slot {}", slot.file_name().to_str()?))).flatten()
    })
}

/// The link that says most to people: one with model and serial number, else any.
fn by_id(folder: &Path, is_it: impl Fn(&Path) -> bool) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut names: Vec<String> =
        entries.filter(|link| is_it(link)).filter_map(|link| name_of(&link)).collect();
    names.sort_by_key(|name| (UNPRINTED.iter().any(|start| name.starts_with(start)), name.clone()));
    names.into_iter().next()
}

fn name_of(link: &Path) -> Option<String> {
    Some(link.file_name()?.to_str()?.to_owned())
}

/// Converts a drive's field to one line of text: drives pad with spaces and zeroes.
fn clean(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A file system with a disk 8:16 and its partition 8:17.
    fn root(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("brindle-drive-{name}-{}", std::process::id()));
        let disk = root.join("sys/devices/pci/sdb");
        fs::create_dir_all(disk.join("device")).unwrap();
        fs::create_dir_all(disk.join("sdb1")).unwrap();
        fs::write(disk.join("sdb1/partition"), "1\n").unwrap();
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        fs::create_dir_all(root.join("dev/disk/by-id")).unwrap();
        for (number, to) in [("8:16", "sdb"), ("8:17", "sdb/sdb1")] {
            let to = root.join("sys/devices/pci").join(to);
            std::os::unix::fs::symlink(to, root.join("sys/dev/block").join(number)).unwrap();
        }
        root
    }

    #[test]
    fn a_disk_and_its_partition_are_named_as_the_label_on_the_disk() {
        let root = root("named");
        let disk = root.join("sys/devices/pci/sdb");
        assert_eq!(Drive::below(&root, 8, 16, |_| false), None);
        fs::write(disk.join("device/model"), "WDC WD200EDGZ   \n").unwrap();
        fs::write(disk.join("device/vpd_pg80"), b"\x00\x80\x00\x08  2LG1ABCD\0").unwrap();
        for link in ["wwn-0x5000", "ata-WDC_WD200EDGZ_2LG1ABCD", "ata-OTHER"] {
            fs::write(root.join("dev/disk/by-id").join(link), "").unwrap();
        }
        let is_it = |link: &Path| !link.ends_with("ata-OTHER");
        for minor in [16, 17] {
            let drive = Drive::below(&root, 8, minor, is_it).unwrap();
            assert_eq!(drive.model.as_deref(), Some("WDC WD200EDGZ"));
            assert_eq!(drive.serial.as_deref(), Some("2LG1ABCD"));
            assert_eq!(drive.by_id.as_deref(), Some("ata-WDC_WD200EDGZ_2LG1ABCD"));
        }
        // NVMe says it itself, and a name that says nothing is better than none.
        fs::write(disk.join("device/serial"), "S5GX\n").unwrap();
        let drive = Drive::below(&root, 8, 16, |link| link.ends_with("wwn-0x5000")).unwrap();
        assert_eq!((drive.serial.as_deref(), drive.by_id.as_deref()), (Some("S5GX"), Some("wwn-0x5000")));
        assert_eq!(Drive::below(&root, 9, 9, |_| true), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_place_that_it_is_plugged_in_is_told_as_far_as_anything_knows() {
        let root = root("slot");
        let disk = root.join("sys/devices/pci/sdb");
        fs::write(disk.join("device/model"), "M").unwrap();
        let slot = |at: &Path, minor| Drive::below(at, 8, minor, |_| true).unwrap().slot;
        assert_eq!(slot(&root, 16), None);
        fs::create_dir_all(root.join("dev/disk/by-path")).unwrap();
        fs::write(root.join("dev/disk/by-path/pci-0000:00:17.0-ata-3"), "").unwrap();
        assert_eq!(slot(&root, 17).as_deref(), Some("pci-0000:00:17.0-ata-3"));
        fs::create_dir(disk.join("device/enclosure_device:Slot 03 ")).unwrap();
        assert_eq!(slot(&root, 17).as_deref(), Some("Slot 03"));
        // A drive of NVMe is in a slot of PCI itself.
        let nvme = root.join("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1");
        fs::create_dir_all(nvme.join("device")).unwrap();
        fs::write(nvme.join("device/model"), "N").unwrap();
        for (name, address) in [("4", "0000:01:00\n"), ("7", "0000:02:00\n")] {
            let slot = root.join("sys/bus/pci/slots").join(name);
            fs::create_dir_all(&slot).unwrap();
            fs::write(slot.join("address"), address).unwrap();
        }
        std::os::unix::fs::symlink(&nvme, root.join("sys/dev/block/8:99")).unwrap();
        assert_eq!(slot(&root, 99).as_deref(), Some("PCI slot 4"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn files_are_no_drives() {
        assert_eq!(Drive::of(&std::env::current_exe().unwrap()), None);
        assert_eq!(Drive::of(Path::new("/no such device")), None);
    }
}
