//! Flags of `brindle advise`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `brindle advise`.
#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// A fio job file with the array's usual load, by which its chunk is judged
    #[arg(long, short = 'w', value_name = "FILE")]
    pub(crate) workload: Option<PathBuf>,
    /// The model of every member for predictions: a file, or evo850, p3700, nvme, nvme-consumer, nvme-qlc, nvme-tlc, sata-ssd, sata-dc, hdd-7200, hdd-24tb [default: by the kind of the
    /// members]
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) drive: Option<String>,
    /// Where sysfs is: another than /sys is a copy of another machine's, whose devices have the names of the members' files
    #[arg(long, value_name = "DIR", default_value = "/sys")]
    pub(crate) sysfs: PathBuf,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The array's members, in any order, or the array itself where the kernel runs it, as in /dev/md0
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}
