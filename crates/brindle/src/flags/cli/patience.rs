//! Flags of how long members may take.

use clap::Args;

use crate::base::units::Span;

/// How long members may take: a number with ms, s, m or h.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Patience {
    /// A member that has not answered a read or write for so long is failed, if the array can do without it; one that does
    /// not answer when it is opened is left out [default: 20s; 4s with --iscsi]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(crate) member_timeout: Option<Span>,
    /// A member that has not answered a flush, discard or write of zeroes for so long is failed, if the array can do without it
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = Span::parse)]
    pub(crate) flush_timeout: Span,
    /// A read that has not been answered for so long is answered from the other members, where they can
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = Span::parse)]
    pub(crate) read_patience: Span,
}
