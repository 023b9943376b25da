//! Reports on doors: the use of exports by each, in the words that users know.

use std::collections::BTreeMap;

use brindle_export::access::Proof;
use brindle_export::nbd::ExportStats;

use super::{DoorClient, Doors, ExportPlace, ExportUse};
use crate::status::{ClientStatus, DoorStatus, ExportDoors, PoolDoors, ReactorStatus, TargetStatus};

/// Protocols that reports name also where there is no door of theirs.
const ALWAYS: [&str; 2] = ["nbd", "iscsi"];

/// How all doors are used.
pub(crate) struct DoorStats {
    /// In the order of the doors, with the words for their protocols.
    doors: Vec<(&'static str, Vec<ExportUse>, Vec<DoorClient>)>,
    /// The reactors of the server, if there are several.
    reactors: Vec<ReactorStatus>,
    /// Clients that were refused.
    pub(crate) refused: u64,
}

/// Addresses of exports, by the word for the protocol.
pub fn by_protocol(places: &[ExportPlace]) -> BTreeMap<&'static str, Vec<String>> {
    let mut all: BTreeMap<_, Vec<String>> = ALWAYS.map(|protocol| (protocol, Vec::new())).into();
    for (protocol, addresses) in places.iter().flat_map(|place| &place.by_door) {
        all.entry(protocol).or_default().extend(addresses.iter().cloned());
    }
    all
}

impl Doors {
    pub(crate) fn stats(&self) -> DoorStats {
        let told = self.0.iter().filter(|door| door.is_always_told() || !door.clients().is_empty());
        let doors = told.map(|door| (door.protocol(), door.exports(), door.clients()));
        let refused = self.0.iter().map(|door| door.refused()).sum();
        let reactors = self.0.iter().flat_map(|door| door.reactors()).collect();
        DoorStats { doors: doors.collect(), reactors, refused }
    }
}

impl DoorStats {
    /// The use of exports by each door: one sum for each, with its addresses at these places.
    pub(crate) fn uses(&self, places: &[ExportPlace]) -> Vec<DoorStatus> {
        let of = |(protocol, uses, _): &(&'static str, Vec<ExportUse>, Vec<DoorClient>)| {
            let reactors = self.reactors.clone();
            let mut status = DoorStatus { protocol: (*protocol).into(), reactors, ..DoorStatus::default() };
            for place in places {
                let own = place.by_door.iter().filter(|(door, _)| door == protocol);
                status.addresses.extend(own.flat_map(|(_, addresses)| addresses.clone()));
                uses.iter().filter(|one| one.export == place.export).for_each(|one| status.add(one));
            }
            status
        };
        self.doors.iter().map(of).collect()
    }

    /// The clients of exports. Clients of a door that only learn of exports are those of each that it offers.
    pub(crate) fn clients(&self, exports: &[String]) -> Vec<ClientStatus> {
        let mut clients = Vec::new();
        for (protocol, uses, all) in &self.doors {
            let offers = uses.iter().any(|one| exports.contains(&one.export));
            let meant = all.iter().filter(|one| one.uses_one_of(exports) || one.discovers && offers);
            clients.extend(meant.map(|one| one.status(protocol)));
        }
        clients
    }
}

impl From<ExportStats> for ExportUse {
    fn from(stats: ExportStats) -> Self {
        let ExportStats { name, connections, total, latency } = stats;
        Self { export: name, clients: connections, total, latency, target: None }
    }
}

impl DoorClient {
    fn status(&self, protocol: &'static str) -> ClientStatus {
        let one = &self.connection;
        let proved = match &one.client.proved {
            Some(Proof::Certificate(names)) => names.clone(),
            Some(Proof::Chap(name)) => vec![name.clone()],
            None => Vec::new(),
        };
        ClientStatus {
            protocol: protocol.into(),
            volume: self.export.clone().filter(|name| name.contains('/')),
            address: self.address(),
            tls: one.secure,
            proved,
            discovery: self.discovers,
            initiator: self.initiator.clone(),
            seconds: one.age.as_secs_f64(),
            outstanding: one.outstanding,
            requests: one.total.requests,
            bytes_read: one.total.read_bytes,
            bytes_written: one.total.written_bytes,
            errors: one.total.errors,
        }
    }
}

impl DoorStatus {
    fn add(&mut self, one: &ExportUse) {
        self.connections += one.clients;
        self.requests += one.total.requests;
        self.bytes_read += one.total.read_bytes;
        self.bytes_written += one.total.written_bytes;
        self.errors += one.total.errors;
        for (sum, of) in [&mut self.read_latency, &mut self.write_latency].into_iter().zip(&one.latency) {
            sum.resize(of.buckets.len(), 0);
            sum.iter_mut().zip(&of.buckets).for_each(|(sum, count)| *sum += count);
        }
        self.target = self.target.take().or_else(|| {
            let target = one.target.as_ref()?;
            Some(TargetStatus {
                target: target.name.clone(),
                addresses: self.addresses.clone(),
                unit: 0,
                initiators: target.initiators.iter().map(|(_, port)| port.clone()).collect(),
                registrants: target.registrants,
                reserved: target.reserved,
                requests: self.requests,
                bytes_read: self.bytes_read,
                bytes_written: self.bytes_written,
                errors: self.errors,
                read_latency: self.read_latency.clone(),
                write_latency: self.write_latency.clone(),
            })
        });
    }
}

impl ExportDoors {
    /// The report of an export's doors.
    pub(crate) fn of(uses: Vec<DoorStatus>) -> Self {
        let all = uses.clone();
        let reactors = reactors(&uses);
        let (nbd, iscsi, doors) = parted(uses);
        Self { nbd, iscsi: iscsi.target, doors, reactors, uses: all }
    }
}

impl PoolDoors {
    /// The report of the doors of a pool's volumes.
    pub fn of(uses: Vec<DoorStatus>) -> Self {
        let reactors = reactors(&uses);
        let (nbd, iscsi, doors) = parted(uses);
        Self { nbd, iscsi: iscsi.addresses, doors, reactors }
    }
}

/// The reactors of the server: all doors tell the same.
fn reactors(uses: &[DoorStatus]) -> Vec<ReactorStatus> {
    uses.first().map(|one| one.reactors.clone()).unwrap_or_default()
}

/// The addresses of NBD, the use by way of iSCSI, and that by way of all other doors.
fn parted(uses: Vec<DoorStatus>) -> (Vec<String>, DoorStatus, Vec<DoorStatus>) {
    let (mut nbd, mut iscsi, mut others) = (Vec::new(), DoorStatus::default(), Vec::new());
    for one in uses {
        match &*one.protocol {
            "nbd" => nbd = one.addresses,
            "iscsi" => iscsi = one,
            _ => others.push(one),
        }
    }
    (nbd, iscsi, others)
}
