//! Bytes and structs, and the pages that draw them, by subject.

mod beside;
mod documents;
mod history;
mod imsm;
mod mdadm_examine;
mod partitions;
mod pool_documents;
mod signature;
mod superblock;
mod torn;
