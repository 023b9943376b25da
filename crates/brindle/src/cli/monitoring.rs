//! Flags of `brindle monitor`.

use std::path::PathBuf;

use clap::Args;

use super::Runtime;
use crate::units::Span;

/// Flags of `brindle monitor`.
#[derive(Debug, Args)]
pub(crate) struct Monitor {
    /// Watch all arrays: those of running servers, and the kernel's
    #[arg(long, short = 's', required_unless_present = "arrays", conflicts_with = "arrays")]
    pub(crate) scan: bool,
    /// Look once, report problems, and end
    #[arg(long, short = '1')]
    pub(crate) oneshot: bool,
    /// Time between two looks; a plain number counts seconds
    #[arg(long, short = 'd', value_name = "TIME", default_value = "60s", value_parser = Span::parse)]
    pub(crate) delay: Span,
    /// Steps of a rebuild, in percent, at which it is reported
    #[arg(long, short = 'r', value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) increment: u8,
    /// Report a test event for each array, to see whether messages arrive
    #[arg(long, short = 't')]
    pub(crate) test: bool,
    /// Mail events that need attention to ADDRESS, by sendmail [default: MAILADDR of mdadm.conf]
    #[arg(long, short = 'm', value_name = "ADDRESS")]
    pub(crate) mail: Option<String>,
    /// The program that sends mail: it reads a message, and takes -t [default: /usr/sbin/sendmail or /usr/lib/sendmail]
    #[arg(long, value_name = "FILE")]
    pub(crate) sendmail: Option<PathBuf>,
    /// Run FILE at each event, with its name, the array, and the device [default: PROGRAM of mdadm.conf]
    #[arg(long, short = 'p', value_name = "FILE", alias = "alert")]
    pub(crate) program: Option<PathBuf>,
    /// File with MAILADDR, MAILFROM and PROGRAM [default: /etc/mdadm/mdadm.conf or /etc/mdadm.conf, if one is there]
    #[arg(long, short = 'c', value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON: one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Names of arrays, or /dev/mdN of the kernel's
    #[arg(value_name = "ARRAY")]
    pub(crate) arrays: Vec<String>,
}
