//! The state of an array whose storm came to no end.

use core::fmt;

use brindle_array::{Array, Event};
use brindle_io::{Duration, Instant, Io, OpSpan};

/// Events that are shown: the last ones.
const EVENTS: usize = 12;

/// A boot that came to no end: what its clients waited for, and what the array waited for.
#[derive(Clone, Debug)]
pub struct Standstill {
    /// The activity of the boot.
    pub doing: &'static str,
    /// When the storm was given up, since the boot began.
    pub at: Instant,
    /// Tasks that had not ended.
    pub tasks: usize,
    /// The array, if it had been opened.
    pub array: Option<Waiting>,
}

/// An array that waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its state, and the change of it that is being recorded.
    pub state: String,
    /// A line for each member.
    pub members: Vec<String>,
    /// The last events, oldest first.
    pub events: Vec<Event>,
}

impl Waiting {
    /// The operations and state changes that `array` waits for now.
    pub fn of(array: &Array, io: &Io) -> Self {
        let detail = array.detail();
        let change = array.state_change();
        let state = format!(
            "{}, event count {}, recording {change:?}, in doubt from {:?}, process {:?}",
            detail.state_words(),
            detail.events,
            detail.resync_offset,
            detail.process
        );
        let mut events = array.events_since(0);
        let members = detail
            .devices
            .iter()
            .map(|device| format!("{}: {:?}{}", device.label, device.state, in_flight(io, device.id)));
        Self {
            state,
            members: members.collect(),
            events: events.split_off(events.len().saturating_sub(EVENTS)),
        }
    }
}

/// The operations under way on a member: the age of the oldest of each class, and the number given up.
fn in_flight(io: &Io, member: brindle_io::MemberId) -> String {
    let classes = [OpSpan::Read, OpSpan::Write, OpSpan::Slow, OpSpan::Probe];
    let oldest = classes.iter().filter_map(|&class| Some((class, io.oldest(member, class)?)));
    let lines = oldest.map(|(class, since)| format!(", {class:?} for {:?}", io.now().since(since)));
    let orphans = io.orphans(member);
    lines.collect::<String>() + &if orphans > 0 { format!(", {orphans} given up") } else { String::new() }
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?}, {}, {} tasks wait", since_start(self.at), self.doing, self.tasks)?;
        let Some(array) = &self.array else { return Ok(()) };
        write!(f, "\n  {}", array.state)?;
        array.members.iter().try_for_each(|member| write!(f, "\n  {member}"))?;
        let lines = array.events.iter();
        lines
            .map(|event| (since_start(event.moment), event))
            .try_for_each(|(at, event)| write!(f, "\n  {at:?}: {event}"))
    }
}

fn since_start(moment: Instant) -> Duration {
    moment.since(Instant::from_nanos(0))
}
