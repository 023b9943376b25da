//! Certificates of NBD's TLS: read at the start, and anew at SIGHUP.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brindle_export::Security;
use brindle_export::tls::{Pems, Tls};

use crate::cli::TlsFlags;
use crate::failure::Failure;

/// Whether clients prove who they are, and nobody on the way can read along.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gives {
    pub(super) proof: bool,
    pub(super) secrecy: bool,
}

/// Files in PEM's form.
#[derive(Clone, Debug)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
    clients: Option<PathBuf>,
    revoked: Option<PathBuf>,
}

/// The certificates that are in use, and where they came from.
#[derive(Debug)]
pub(super) struct Certificates {
    tls: Arc<Tls>,
    files: Files,
}

impl Certificates {
    /// Reads what the flags name; `None` if TLS is not asked for.
    pub(super) fn find(flags: &TlsFlags) -> Result<Option<Self>, Failure> {
        let (Some(chain), Some(key)) = (&flags.tls_cert, &flags.tls_key) else { return Ok(None) };
        let (clients, revoked) = (flags.tls_clients.clone(), flags.tls_revoked.clone());
        let files = Files { chain: chain.clone(), key: key.clone(), clients, revoked };
        let tls = files.with(Tls::new)?;
        Ok(Some(Self { tls: Arc::new(tls), files }))
    }

    /// The rights that they give.
    pub(super) fn gives(&self) -> Gives {
        Gives { proof: self.tls.knows_clients(), secrecy: true }
    }

    /// The side of a listener, which demands TLS or only offers it.
    pub(super) fn security(&self, demanded: bool) -> Security {
        Security { tls: Arc::clone(&self.tls), demanded }
    }

    /// Reads the files anew: all of them take effect, or none.
    pub(super) fn read_anew(&self) -> Result<(), Failure> {
        self.files.with(|pems| self.tls.replace(pems))
    }
}

impl Files {
    /// Gives all of them to `take`.
    fn with<T>(
        &self,
        take: impl FnOnce(Pems<'_>) -> Result<T, brindle_export::tls::TlsError>,
    ) -> Result<T, Failure> {
        let (chain, key) = (read(&self.chain)?, private(&self.key)?);
        let clients = self.clients.as_deref().map(read).transpose()?;
        let revoked = self.revoked.as_deref().map(read).transpose()?;
        let pems =
            Pems { chain: &chain, key: &key, clients: clients.as_deref(), revoked: revoked.as_deref() };
        let names = [Some(&self.chain), Some(&self.key), self.clients.as_ref(), self.revoked.as_ref()];
        let names: Vec<String> = names.into_iter().flatten().map(|path| path.display().to_string()).collect();
        take(pems).map_err(|why| Failure::Refused(format!("{}: {why}", names.join(", "))))
    }
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
