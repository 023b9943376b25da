//! `--metrics`: where scrapes are answered.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use brindle_host::Snapshot;
use brindle_host::metrics::{Bearer, Metrics, ScrapeListener};
use brindle_io::uring::{self, SocketFile};

use super::places::{self, ListenPlace};
use crate::base::failure::Failure;
use crate::server::shutdown::Socket;
use brindle_host::opening::{Listen, MetricsConfig};

/// Where metrics are to be had, checked before anything runs.
pub(super) struct ScrapePlan {
    places: Vec<(Listen, ListenPlace)>,
    pub(super) bearer: Option<BearerFile>,
    full: bool,
}

/// The secret of scrapes, and the file that has it.
#[derive(Clone)]
pub(super) struct BearerFile {
    file: PathBuf,
    bearer: Bearer,
}

impl BearerFile {
    fn read(file: &Path) -> Result<Self, Failure> {
        Ok(Self { file: file.to_owned(), bearer: Bearer::new(secret(file)?) })
    }

    /// Reads the file anew, and changes nothing yet.
    pub(super) fn read_anew(&self) -> Result<Vec<u8>, Failure> {
        secret(&self.file)
    }

    /// A secret that was read anew takes effect.
    pub(super) fn take(&self, secret: Vec<u8>) {
        self.bearer.replace(secret);
    }
}

/// The longest secret.
const MOST_SECRET: usize = 4096;

impl ScrapePlan {
    /// Finds the listeners that settings ask for.
    pub(super) fn find(wanted: &MetricsConfig) -> Result<Self, Failure> {
        let place = |listen: &Listen| {
            let place = ListenPlace::find(listen)?;
            if !place.is_of_this_machine() {
                return Err(Failure::Usage(format!(
                    "--metrics {listen} can be reached from other machines, and metrics are not encrypted: listen on 127.0.0.1 or a \
                     Unix socket, and let a proxy with TLS or ssh forward it"
                )));
            }
            Ok((listen.clone(), place))
        };
        let places = wanted.listen.iter().map(place).collect::<Result<_, Failure>>()?;
        let bearer = wanted.bearer.as_deref().map(BearerFile::read).transpose()?;
        Ok(Self { places, bearer, full: wanted.full })
    }

    /// Listens; the names of the sockets are kept as long as the result lives.
    pub(super) fn listen(&self) -> Result<Listening, Failure> {
        let mut listening = Listening::default();
        for (listen, place) in &self.places {
            match place {
                ListenPlace::Unix(path) => {
                    let (listener, file) = uring::listen_unix(path, uring::OWNER_ONLY)?;
                    listening.listeners.push(ScrapeListener::Unix(listener));
                    listening.files.push((path.clone(), file));
                    listening.addresses.push(format!("unix:{}", path.display()));
                }
                ListenPlace::Tcp(addresses) => {
                    let bound = places::bind(addresses, |address| {
                        let listener = TcpListener::from(uring::listen_tcp(address)?);
                        let bound = listener.local_addr().unwrap_or(address);
                        Ok((listener, bound))
                    });
                    let bound = bound.map_err(|source| match source {
                        uring::ListenError::Address { source, .. } => {
                            Failure::system(format!("--metrics {listen}"), source)
                        }
                        other => other.into(),
                    })?;
                    for (listener, bound) in bound {
                        listening.addresses.push(format!("http://{bound}/metrics"));
                        listening.listeners.push(ScrapeListener::Tcp(listener));
                    }
                }
            }
        }
        Ok(listening)
    }

    /// Begins to answer.
    pub(super) fn serve(
        &self,
        listeners: Vec<ScrapeListener>,
        name: &str,
        snapshot: &Snapshot,
    ) -> Result<(), Failure> {
        for listener in listeners {
            let (name, snapshot, full) = (name.to_owned(), snapshot.clone(), self.full);
            let text = move || snapshot.metrics(&name, env!("CARGO_PKG_VERSION"), full).text();
            let bearer = self.bearer.as_ref().map(|of| of.bearer.clone());
            let metrics = Metrics { text: Box::new(text), bearer };
            metrics
                .serve(listener)
                .map_err(|source| Failure::system("the thread for metrics can't start", source))?;
        }
        Ok(())
    }
}

/// Sockets that listen.
#[derive(Default)]
pub(super) struct Listening {
    pub(super) listeners: Vec<ScrapeListener>,
    /// Names of sockets in the file system, which are removed at the end.
    files: Vec<(PathBuf, SocketFile)>,
    /// For people.
    pub(super) addresses: Vec<String>,
}

impl Listening {
    /// The names of the sockets, as an end by force removes them.
    pub(super) fn sockets(&self) -> impl Iterator<Item = Socket> {
        self.files.iter().map(|(path, _)| Socket::new(path))
    }
}

/// The first line of a file.
fn secret(path: &Path) -> Result<Vec<u8>, Failure> {
    let about = || format!("--metrics-bearer {}", path.display());
    let text = std::fs::read(path).map_err(|source| Failure::system(about(), source))?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.len() > MOST_SECRET || !line.iter().all(u8::is_ascii_graphic) {
        return Err(Failure::Usage(format!(
            "{}: its first line is the secret: 1 to {MOST_SECRET} letters, digits and signs, without spaces",
            about()
        )));
    }
    Ok(line.to_vec())
}
