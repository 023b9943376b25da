//! Arrays and volumes of pools as iSCSI targets: their names, the source of secrets, and the place of reservations.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_export::Gate;
use brindle_export::iscsi::login::{Chap, Credentials};
use brindle_export::iscsi::{IscsiConfig, Keep, Server, TargetSpec};
use brindle_export::nbd;
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_host::opening::{Iscsi, Listen};
use brindle_host::{Any, VolumeTargets};
use brindle_io::uring::Uring;
use brindle_io::{Io, SocketId};
use uuid::Uuid;

use super::places::{ListenPlace, listen_tcp};
use super::reservation_files;
use super::tls::Gives;
use crate::base::failure::Failure;

/// The beginning of targets' names: a date and a name as the standard wants them.
const AUTHORITY: &str = "iqn.2026-11.dev.brindle";

/// The settings of an iSCSI server, checked before anything runs.
pub(super) struct IscsiPlan {
    portals: Vec<ListenPlace>,
    pub(super) chap: Option<Chap>,
    state: PathBuf,
    /// NBD clients may write, also to a volume that an initiator has reserved.
    pub(super) shared_writers: bool,
}

impl IscsiPlan {
    /// Finds addresses, and reads secrets.
    pub(super) fn find(wanted: &Iscsi, insecure: bool) -> Result<Self, Failure> {
        let chap = wanted.secrets.as_deref().map(secrets).transpose()?;
        let mut portals = Vec::new();
        for portal in &wanted.portals {
            let place = ListenPlace::find(&Listen::Tcp(portal.clone()))?;
            let gives = Gives { proof: chap.is_some(), secrecy: false };
            let way_out = "give --iscsi-secrets, listen on 127.0.0.1";
            place.check(&format!("--iscsi {portal}"), gives, insecure, way_out)?;
            portals.push(place);
        }
        let state = wanted.state.clone().map_or_else(reservation_files::folder, Ok)?;
        Ok(Self { portals, chap, state, shared_writers: wanted.shared_writers })
    }

    /// Listens at all portals.
    pub(super) fn listen(&self, uring: &Uring) -> Result<Vec<(SocketId, SocketAddr)>, Failure> {
        let mut bound = Vec::new();
        for place in &self.portals {
            let ListenPlace::Tcp(wanted) = place else { continue };
            bound.extend(listen_tcp(uring, wanted)?);
        }
        Ok(bound)
    }

    /// A server for initiators that come to these portals.
    pub(super) fn start(self, io: &Io, portals: &[(SocketId, SocketAddr)], config: nbd::Config) -> Started {
        let random = |bytes: &mut [u8]| {
            // A challenge that can be foreseen proves nothing: without random numbers there is no CHAP.
            getrandom::fill(bytes).expect("the system gives random bytes");
        };
        let config = IscsiConfig { session: config, chap: self.chap, random: Box::new(random) };
        let server = Server::new(io, config);
        let addresses = portals.iter().map(|(_, bound)| bound.to_string()).collect();
        Started { server, addresses, state: self.state }
    }
}

/// Has a server answer those who come to these portals.
pub(super) fn serve(server: &Server<Any>, portals: Vec<(SocketId, SocketAddr)>) {
    for (socket, bound) in portals {
        let reported = (!bound.ip().is_unspecified()).then(|| bound.to_string());
        server.serve(socket, reported);
    }
}

/// A server that runs.
pub(super) struct Started {
    pub(super) server: Server<Any>,
    pub(super) addresses: Vec<String>,
    /// The folder of reservations.
    state: PathBuf,
}

impl Started {
    /// The way in which volumes become targets.
    pub(super) fn volumes(&self, io: &Io) -> VolumeTargets {
        let (io, state, addresses) = (io.clone(), self.state.clone(), self.addresses.clone());
        let spec = move |export: &str, uuid: [u8; 16], volume: Rc<Any>, gate: Rc<Gate>| {
            let target = name_of(export, Uuid::from_bytes(uuid));
            let identity = Identity { uuid, product: export.to_owned(), target };
            spec_of(&io, identity, volume, gate, &state).map_err(|why| why.to_string())
        };
        VolumeTargets {
            name: Rc::new(|export, uuid| name_of(export, Uuid::from_bytes(uuid))),
            spec: Rc::new(spec),
            uris: Rc::new(move |target| uris(&addresses, target)),
        }
    }
}

fn uris(addresses: &[String], target: &str) -> Vec<String> {
    addresses.iter().map(|address| format!("iscsi://{address}/{target}/0")).collect()
}

/// A target's name: the export's, as far as the standard lets it, and the beginning of its UUID.
fn name_of(export: &str, uuid: Uuid) -> String {
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let own: String = export.chars().map(plain).collect();
    format!("{AUTHORITY}:{own}.{}", &uuid.as_simple().to_string()[..8])
}

/// A target with the reservations that were kept of it.
fn spec_of(
    io: &Io,
    identity: Identity,
    volume: Rc<Any>,
    gate: Rc<Gate>,
    state: &Path,
) -> Result<TargetSpec<Any>, Failure> {
    let file = state.join(format!("{}.reservations", Uuid::from_bytes(identity.uuid).as_simple()));
    let reservations = match fs::read_to_string(&file) {
        Ok(text) => Reservations::from_file_text(&text)
            .map_err(|error| Failure::Refused(format!("{}: {error}", file.display())))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Reservations::default(),
        Err(source) => return Err(Failure::system(file.display().to_string(), source)),
    };
    let keep: Keep = {
        let io = io.clone();
        Rc::new(move |text| Box::pin(reservation_files::keep(io.clone(), file.clone(), text)))
    };
    Ok(TargetSpec { identity, volume, reservations, keep: Some(keep), gate })
}

/// Reads the file of secrets. Nothing of it is ever shown.
pub(super) fn secrets(path: &Path) -> Result<Chap, Failure> {
    let shown = path.display();
    let fail = |source| Failure::system(format!("{shown}"), source);
    let meta = fs::metadata(path).map_err(fail)?;
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(Failure::Refused(format!(
            "{shown} has secrets, and others may read it (mode {:04o}): chmod 600 it",
            meta.mode() & 0o7777
        )));
    }
    let text = fs::read_to_string(path).map_err(fail)?;
    let (mut initiators, mut own) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.splitn(3, char::is_whitespace);
        let (Some(what), Some(name), Some(secret)) = (words.next(), words.next(), words.next()) else {
            return Err(malformed(path, at));
        };
        let one = Credentials { name: name.to_owned(), secret: secret.trim().as_bytes().to_vec() };
        match what {
            "initiator" => initiators.push(one),
            "target" if own.is_none() => own = Some(one),
            _ => return Err(malformed(path, at)),
        }
    }
    Chap::new(initiators, own).map_err(|error| Failure::Refused(format!("{shown}: {error}")))
}

fn malformed(path: &Path, at: usize) -> Failure {
    let (path, line) = (path.display(), at + 1);
    Failure::Refused(format!(
        "{path}, line {line}: give `initiator NAME SECRET` for each initiator and `target NAME SECRET` once at most"
    ))
}
