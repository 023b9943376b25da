//! Third party copies: EXTENDED COPY with list identifiers of a byte (LID1), and what RECEIVE COPY RESULTS tells of them
//! (SPC-4, 6.3 and 6.17; SPC-5, 7.7.18).

use super::identity::Identity;
use super::reservation::Nexus;
use super::sense::Sense;
use super::third_party::{
    BLOCKS, BYTES, IDENTIFIED, LONG_SEGMENT, MOST_BYTES, MOST_SEGMENTS, MOST_TARGETS, TARGET,
};

/// Bytes of the head of a list, and of a segment from blocks to blocks.
const HEAD: usize = 16;
const SEGMENT: usize = 28;
/// Bytes that a segment copies, at most.
const MOST_COPIED: u64 = 32 << 20;
/// The longest list of parameters that is taken.
pub(super) const LONGEST: usize = 64 << 10;
/// Copies whose results are remembered.
const REMEMBERED: usize = 8;

/// Part of a copy: from blocks of one unit to blocks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index among the units.
    pub source: usize,
    /// Index among the units.
    pub target: usize,
    /// Blocks.
    pub blocks: u64,
    /// The first block that is read.
    pub from: u64,
    /// The first block that is written.
    pub to: u64,
}

/// The plan of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyJob {
    /// LIST IDENTIFIER.
    pub list: u8,
    /// Results are to be kept.
    pub remembered: bool,
    /// The segments, in order.
    pub segments: Vec<Segment>,
}

/// The state of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Result {
    /// LIST IDENTIFIER.
    pub list: u8,
    /// The copy has failed.
    pub failed: bool,
    /// Segments that were copied.
    pub segments: u16,
    /// Bytes that were copied.
    pub bytes: u64,
}

/// The results of the last copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Results(Vec<(Nexus, Result)>);

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

/// Parses a list of parameters, where `unit` tells the number of the unit that has an identity, and how large its
/// logical blocks are.
///
/// # Errors
/// The list can't be what it says, or names units that are not here.
pub(super) fn parse(
    list: &[u8],
    unit: impl Fn(&dyn Fn(&Identity) -> bool) -> Option<(usize, u32)>,
) -> core::result::Result<CopyJob, Sense> {
    let head = list.get(..HEAD).ok_or(Sense::PARAMETER_LENGTH)?;
    let (targets, segments) = (number(&head[2..4]) as usize, number(&head[8..12]) as usize);
    let inline = number(&head[12..16]) as usize;
    let all = HEAD.saturating_add(targets).saturating_add(segments).saturating_add(inline);
    if all > list.len() || targets % TARGET != 0 || targets + segments > MOST_BYTES {
        return Err(Sense::PARAMETER_LENGTH);
    }
    if targets / TARGET > MOST_TARGETS {
        return Err(Sense::TOO_MANY_TARGETS);
    }
    if inline > 0 {
        return Err(Sense::parameter(12));
    }
    let usage = head[1] >> 3 & 3;
    let (targets, rest) = list[HEAD..].split_at(targets);
    let targets = targets.chunks_exact(TARGET).map(|target| find(target, &unit));
    let found: Vec<Found> = targets.collect::<core::result::Result<_, _>>()?;
    let segments = parse_segments(&rest[..segments])?;
    let copied = segments.into_iter().map(|(source, target, amount, segment)| {
        let unit = |at: usize| found.get(at).and_then(|found| *found).ok_or(Sense::COPY_UNREACHABLE);
        let (source, block) = unit(source)?;
        Ok(Segment { source, target: unit(target)?.0, blocks: amount.blocks(block)?, ..segment })
    });
    let segments = copied.collect::<core::result::Result<_, _>>()?;
    Ok(CopyJob { list: head[0], remembered: usage != 3, segments })
}

/// The index of a unit, and the bytes of its blocks, if it is here.
type Found = Option<(usize, u32)>;

/// Amount of data of a segment.
#[derive(Clone, Copy)]
enum Amount {
    Blocks(u64),
    Bytes(u64),
}

impl Amount {
    /// Blocks of the source.
    fn blocks(self, block: u32) -> core::result::Result<u64, Sense> {
        match self {
            Self::Blocks(blocks) => Ok(blocks),
            Self::Bytes(bytes) if bytes <= MOST_COPIED && bytes % u64::from(block) == 0 => {
                Ok(bytes / u64::from(block))
            }
            Self::Bytes(_) => Err(Sense::PARAMETER_LENGTH),
        }
    }
}

/// Finds the unit of a target descriptor.
fn find(
    target: &[u8],
    unit: &impl Fn(&dyn Fn(&Identity) -> bool) -> Option<(usize, u32)>,
) -> core::result::Result<Found, Sense> {
    // Identification descriptors only.
    if target[0] != IDENTIFIED {
        return Err(Sense::TARGET_TYPE);
    }
    // LU ID TYPE and NUL are obsolete; the kind of peripheral is that of a disk.
    if target[1] & 0x1f != 0 {
        return Err(Sense::COPY_WRONG_KIND);
    }
    let len = usize::from(target[7]).min(20);
    let called = |identity: &Identity| identity.is_called(target[4], target[5], &target[8..8 + len]);
    let Some((at, block)) = unit(&called) else { return Ok(None) };
    if number(&target[29..32]) != u64::from(block) {
        return Err(Sense::COPY_WRONG_KIND);
    }
    Ok(Some((at, block)))
}

type Indexed = (usize, usize, Amount, Segment);

fn parse_segments(mut list: &[u8]) -> core::result::Result<Vec<Indexed>, Sense> {
    let mut segments = Vec::new();
    while !list.is_empty() {
        if segments.len() == MOST_SEGMENTS {
            return Err(Sense::TOO_MANY_SEGMENTS);
        }
        // From blocks to blocks only.
        let len = match list[0] {
            BLOCKS => SEGMENT,
            BYTES => LONG_SEGMENT,
            _ => return Err(Sense::SEGMENT_TYPE),
        };
        let Some((one, rest)) = list.split_at_checked(len) else { return Err(Sense::PARAMETER_LENGTH) };
        // Segments begin at blocks.
        let within = one.get(SEGMENT..).is_some_and(|offsets| number(offsets) != 0);
        if number(&one[2..4]) as usize != len - 4 || within {
            return Err(Sense::PARAMETER_LENGTH);
        }
        let amount = if len == SEGMENT {
            Amount::Blocks(number(&one[10..12]))
        } else {
            Amount::Bytes(number(&one[8..12]))
        };
        let (from, to) = (number(&one[12..20]), number(&one[20..28]));
        let segment = Segment { source: 0, target: 0, blocks: 0, from, to };
        segments.push((number(&one[4..6]) as usize, number(&one[6..8]) as usize, amount, segment));
        list = rest;
    }
    Ok(segments)
}

impl Results {
    pub(super) fn remember(&mut self, nexus: &Nexus, result: Result) {
        self.0.retain(|(by, one)| by != nexus || one.list != result.list);
        if self.0.len() == REMEMBERED {
            self.0.remove(0);
        }
        self.0.push((nexus.clone(), result));
    }

    pub(super) fn forget(&mut self, nexus: &Nexus) {
        self.0.retain(|(by, _)| by != nexus);
    }

    /// The answer to RECEIVE COPY RESULTS.
    ///
    /// # Errors
    /// The service action is unknown, or there is no such copy.
    pub(super) fn report(&self, nexus: &Nexus, action: u8, list: u8) -> core::result::Result<Vec<u8>, Sense> {
        let found = self.0.iter().find(|(by, one)| by == nexus && one.list == list).map(|(_, one)| one);
        match (action, found) {
            (0, Some(result)) => Ok(status(result)),
            (3, _) => Ok(operating()),
            // Failed segments: nothing is reported but that they failed.
            (4, Some(_)) => Ok([56_u32.to_be_bytes().to_vec(), vec![0; 56]].concat()),
            (0 | 4, None) => Err(Sense::cdb(2)),
            _ => Err(Sense::cdb(1)),
        }
    }
}

fn status(result: &Result) -> Vec<u8> {
    let mut bytes = 8_u32.to_be_bytes().to_vec();
    bytes.push(if result.failed { 2 } else { 1 });
    bytes.extend(result.segments.to_be_bytes());
    bytes.push(1); // counted in KiB
    let kib = u32::try_from(result.bytes >> 10).unwrap_or(u32::MAX);
    bytes.extend(kib.to_be_bytes());
    bytes
}

/// OPERATING PARAMETERS.
fn operating() -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[4] = 0x01; // a list need not have an identifier of its own
    bytes[8..10].copy_from_slice(&(MOST_TARGETS as u16).to_be_bytes());
    bytes[10..12].copy_from_slice(&(MOST_SEGMENTS as u16).to_be_bytes());
    bytes[12..16].copy_from_slice(&(MOST_BYTES as u32).to_be_bytes());
    bytes[16..20].copy_from_slice(&(MOST_COPIED as u32).to_be_bytes());
    bytes[36] = 1; // copies at a time
    bytes[37] = 9; // segments are multiples of 512 bytes
    bytes[43] = 3;
    bytes[44..47].copy_from_slice(&[BLOCKS, BYTES, IDENTIFIED]);
    bytes.truncate(47);
    let len = bytes.len() as u32 - 4;
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}
