//! Devices as users name them, looked at and claimed, and the arrays and pools that they make.

pub(crate) mod containers;
pub(crate) mod host;
pub(crate) mod mounts;
pub(crate) mod pools;
pub(crate) mod ring;
pub(crate) mod scan;
pub(crate) mod unserved;
pub(crate) mod world;
