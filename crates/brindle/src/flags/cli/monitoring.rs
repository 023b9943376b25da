//! Flags of `brindle monitor`.

use std::path::PathBuf;

use brindle_host::opening::is_web_address;
use clap::Args;

use super::Runtime;
use crate::base::units::Span;

/// Flags of `brindle monitor`.
#[derive(Debug, Args)]
pub(crate) struct Monitor {
    /// Watch all arrays: of running servers, and the kernel's
    #[arg(long, short = 's', required_unless_present = "arrays", conflicts_with = "arrays")]
    pub(crate) scan: bool,
    /// Look once, report problems, and end
    #[arg(long, short = '1')]
    pub(crate) oneshot: bool,
    /// Time between two looks
    #[arg(long, short = 'd', value_name = "TIME", default_value = "60s", value_parser = Span::parse_any)]
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
    /// Post each event to URL, as a line of JSON, by curl; tried until it can be reached
    #[arg(long, value_name = "URL", value_parser = web_address)]
    pub(crate) webhook: Option<String>,
    /// Look at the health of drives each half hour, by smartctl: one that fails is an event
    #[arg(long)]
    pub(crate) smart: bool,
    /// The program that is run in place of smartctl
    #[arg(long, value_name = "FILE", requires = "smart")]
    pub(crate) smartctl: Option<PathBuf>,
    /// Report arrays whose redundancy was not compared for so many days
    #[arg(long, value_name = "DAYS")]
    pub(crate) scrub_overdue: Option<u32>,
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

fn web_address(text: &str) -> Result<String, String> {
    let wrong = || "an address begins with http:// or https://, and is one word".to_owned();
    is_web_address(text).then(|| text.to_owned()).ok_or_else(wrong)
}
