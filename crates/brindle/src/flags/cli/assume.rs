//! `--assume`: geometry by hand, for arrays whose superblocks are lost.

use clap::Args;

use crate::devices::world::Assume;

/// Flag of commands that only read.
#[derive(Debug, Args)]
pub(crate) struct Assuming {
    /// Geometry by hand where superblocks are lost, read-only: level=5,chunk=64K,layout=ls,offset=2048s,order=A,B,missing,D; offset is
    /// where data begin on each member, size=... the bytes used of each (all there is, unless given); order comes last
    #[arg(long, value_name = "GEOMETRY", value_parser = Assume::parse, conflicts_with = "members")]
    pub(crate) assume: Option<Assume>,
}
