//! Fuzz targets: one module for each, with a function `run` that panics where an invariant does not hold. libFuzzer
//! calls them from `fuzz/fuzz_targets`, the tests of this crate from the stored corpus and from random changes to it.

pub mod assemble;
mod checksum;
pub mod console;
pub mod control;
pub mod drive_model;
mod feed;
pub mod fuse_calls;
pub mod imsm;
pub mod imsm_set;
pub mod iscsi_login;
pub mod iscsi_session;
pub mod job_file;
pub mod md_sidecars;
pub mod md_superblock;
pub mod mutate;
mod nbd;
pub mod nbd_client;
pub mod nbd_options;
pub mod nbd_tls;
pub mod nbd_transmission;
pub mod partition_tables;
pub mod partitions;
pub mod plan;
pub mod pool_members;
pub mod rights;
pub mod scsi_commands;
pub mod sets;
pub mod signature;
pub mod trace;
