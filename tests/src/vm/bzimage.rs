//! The kernel inside the file that boot loaders start. That file unpacks itself, which takes an emulated processor a
//! second; QEMU starts an unpacked kernel just as well if it has the entry point of PVH.
//!
//! The header is that of the Linux/x86 boot protocol, described in the kernel's `Documentation/arch/x86/boot.rst`.

use std::path::Path;
use std::process::Command;

use crate::tools::{self, Missing};

/// The first version of the protocol that tells where the packed kernel is.
const TELLS_PAYLOAD: u16 = 0x0208;

/// How packed kernels begin, the program that unpacks them, and how many bytes that are not its own stand at the end:
/// the kernel's size, which all but gzip lack.
const PACKERS: [(&[u8], &str, usize); 4] = [
    (b"\x1f\x8b", "gzip", 0),
    (b"\xfd7zXZ\0", "xz", 4),
    (b"\x28\xb5\x2f\xfd", "zstd", 4),
    (b"\x02\x21\x4c\x18", "lz4", 4),
];

/// Head of the ELF note with the entry point of PVH: length of the name, of the value, type 18 (`XEN_ELFNOTE_PHYS32_ENTRY`
/// of Xen's `elfnote.h`), name. The value has 4 or 8 bytes.
const PVH_NOTES: [&[u8]; 2] =
    [b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0", b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0"];

/// The kernel in the file `image`, which QEMU can start; `None` if it is packed in another way or has no such entry.
///
/// # Errors
/// The program that unpacks it is not installed.
///
/// # Panics
/// If files can't be read or written.
pub(super) fn kernel(image: &Path) -> Result<Option<Vec<u8>>, Missing> {
    let image = std::fs::read(image).unwrap_or_else(|e| panic!("{}: {e}", image.display()));
    let Some((packed, program)) = payload(&image).and_then(packer) else { return Ok(None) };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), packed).expect("a temporary file can be written");
    let mut command = Command::new(tools::find(program)?);
    let output = command.arg("-dc").stdin(file.reopen().expect("a temporary file")).output();
    let output = output.expect("the unpacker starts");
    let has = |note: &&[u8]| output.stdout.windows(note.len()).any(|window| window == *note);
    Ok((output.status.success() && PVH_NOTES.iter().any(has)).then_some(output.stdout))
}

/// The packed kernel.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let half = |at: usize| Some(u16::from_le_bytes(image.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    if image.get(0x202..0x206)? != b"HdrS" || half(0x206)? < TELLS_PAYLOAD {
        return None;
    }
    // The part that runs in real mode comes first: one sector, and so many more.
    let start = (usize::from(image[0x1f1]) + 1) * 512 + word(0x248)?;
    image.get(start..start.checked_add(word(0x24c)?)?)
}

/// The packed bytes, and the program that unpacks them.
fn packer(payload: &[u8]) -> Option<(&[u8], &'static str)> {
    let (_, program, behind) = PACKERS.iter().find(|(magic, ..)| payload.starts_with(magic))?;
    Some((&payload[..payload.len().checked_sub(*behind)?], program))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 0x800];
        (image[0x1f1], image[0x206], image[0x207]) = (1, 0x0c, 0x02);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&0x10u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image[0x410..0x410 + payload.len()].copy_from_slice(payload);
        image
    }

    #[test]
    fn the_packed_kernel_is_found() {
        let image = image(b"\x28\xb5\x2f\xfdkernelSIZE");
        let (packed, program) = payload(&image).and_then(packer).expect("a payload");
        assert_eq!((packed, program), (&b"\x28\xb5\x2f\xfdkernel"[..], "zstd"));
    }

    #[test]
    fn other_files_are_left_alone() {
        assert_eq!(payload(b"\x7fELF"), None);
        assert_eq!(payload(&image(b"")[..0x300]), None, "ends before the payload does");
        assert_eq!(packer(b"BZh9"), None);
        let mut old = image(b"x");
        old[0x206] = 0x07;
        assert_eq!(payload(&old), None, "protocol 2.07");
    }
}
