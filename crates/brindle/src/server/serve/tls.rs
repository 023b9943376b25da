//! Certificates of NBD's TLS: read at the start, and anew at SIGHUP.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use brindle_export::Security;
use brindle_export::tls::{NextTls, Pems, Tls};
use brindle_host::opening::TlsFiles;

use crate::base::failure::Failure;

/// Whether connections are encrypted, and clients prove their names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gives {
    pub(super) proof: bool,
    pub(super) secrecy: bool,
}

/// The certificates that are in use, and where they came from.
#[derive(Debug)]
pub(super) struct Certificates {
    tls: Arc<Tls>,
    files: TlsFiles,
}

impl Certificates {
    /// Reads the files.
    pub(super) fn read(files: &TlsFiles) -> Result<Self, Failure> {
        let tls = with(files, Tls::new)?;
        Ok(Self { tls: Arc::new(tls), files: files.clone() })
    }

    /// The rights that the certificates give.
    pub(super) fn gives(&self) -> Gives {
        Gives { proof: self.tls.knows_clients(), secrecy: true }
    }

    /// The side of a listener, which demands TLS or only offers it.
    pub(super) fn security(&self, demanded: bool) -> Security {
        Security { tls: Arc::clone(&self.tls), demanded }
    }

    /// Reads the files anew, and changes nothing yet.
    pub(super) fn read_anew(&self) -> Result<NextTls, Failure> {
        with(&self.files, NextTls::new)
    }

    /// Certificates that were read anew take effect.
    pub(super) fn take(&self, next: NextTls) {
        self.tls.become_next(next);
    }
}

/// Gives all files to `take`.
fn with<T>(
    files: &TlsFiles,
    take: impl FnOnce(Pems<'_>) -> Result<T, brindle_export::tls::TlsError>,
) -> Result<T, Failure> {
    let (chain, key) = (read(&files.cert)?, private(&files.key)?);
    let clients = files.clients.as_deref().map(read).transpose()?;
    let revoked = files.revoked.as_deref().map(read).transpose()?;
    let pems = Pems { chain: &chain, key: &key, clients: clients.as_deref(), revoked: revoked.as_deref() };
    let names = [Some(&files.cert), Some(&files.key), files.clients.as_ref(), files.revoked.as_ref()];
    let names: Vec<String> = names.into_iter().flatten().map(|path| path.display().to_string()).collect();
    take(pems).map_err(|why| Failure::Refused(format!("{}: {why}", names.join(", "))))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|source| Failure::system(path.display().to_string(), source))
}

/// Reads a file that its owner alone may read.
fn private(path: &Path) -> Result<Vec<u8>, Failure> {
    let meta = fs::metadata(path).map_err(|source| Failure::system(path.display().to_string(), source))?;
    if meta.permissions().mode() & 0o077 != 0 {
        let (path, mode) = (path.display(), meta.mode() & 0o7777);
        return Err(Failure::Refused(format!(
            "{path} has a private key, and others may read it (mode {mode:04o}): chmod 600 it"
        )));
    }
    read(path)
}
