//! Servers of both protocols and what clients do to them, by subject.

mod bad_clients;
mod client;
mod clients;
mod conformance;
mod fencing;
mod greedy_clients;
mod handshake;
mod hostile;
mod iscsi;
mod libiscsi;
mod long_commands;
mod mounts;
mod nbd_and_iscsi;
mod places;
mod proto;
mod reactors;
mod rights;
mod support;
mod tls;
mod transmission;
