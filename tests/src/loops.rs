//! Loop devices: files as block devices with sectors of any size, where root may have them.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use crate::tools::{self, Missing};

/// A loop device; detached when dropped.
#[derive(Debug)]
pub struct Loop(PathBuf);

impl Loop {
    /// A device of sectors of so many bytes over a file.
    ///
    /// # Errors
    /// Only root may have one, or there is none.
    ///
    /// # Panics
    /// If losetup can't be started.
    pub fn over(file: &Path, sector: u32) -> Result<Self, Missing> {
        if !geteuid().is_root() {
            return Err(Missing::new("loop devices need root"));
        }
        let mut command = Command::new(tools::find("losetup")?);
        command.args(["--find", "--show", "--sector-size", &sector.to_string()]).arg(file);
        let output = command.output().expect("losetup starts");
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Missing::new(format!("no loop device can be had: {why}")));
        }
        Ok(Self(String::from_utf8_lossy(&output.stdout).trim().into()))
    }

    /// Its node.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// The devices that some files are.
#[derive(Debug)]
pub struct Devices {
    /// Kept while they are used.
    _loops: Vec<Loop>,
    /// A device of each file.
    pub paths: Vec<PathBuf>,
}

impl Devices {
    /// Devices of sectors of so many bytes. Files are devices with sectors of 512 bytes; larger ones take a loop device.
    ///
    /// # Errors
    /// The errors of [`Loop::over`].
    ///
    /// # Panics
    /// If losetup can't be started.
    pub fn over(files: &[PathBuf], sector: u32) -> Result<Self, Missing> {
        if sector == 512 {
            return Ok(Self { _loops: Vec::new(), paths: files.to_vec() });
        }
        let loops = files.iter().map(|file| Loop::over(file, sector)).collect::<Result<Vec<_>, _>>()?;
        let paths = loops.iter().map(|device| device.path().to_owned()).collect();
        Ok(Self { _loops: loops, paths })
    }
}
