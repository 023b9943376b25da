//! Computes lost blocks of a row from the others.

use core::ops::Range;

use brindle_layout::Row;
use brindle_parity::Kernel;

use super::Slots;
use super::window::Blocks;

/// The blocks of a row that must be read for the wanted ones, and which of the wanted must be computed.
pub(super) struct Needs {
    /// All data blocks that are there.
    pub(super) data: bool,
    pub(super) p: bool,
    pub(super) q: bool,
}

/// Data blocks that are lost, by index: never more than two can be rebuilt.
pub(super) type LostData = arrayvec::ArrayVec<u16, 2>;

/// Why a row can't be solved: more is lost than its parity replaces.
pub(super) struct Unsolvable;

/// The data blocks of the row that are lost.
pub(super) fn lost_data(row: &Row, there: impl Fn(u16) -> bool) -> Result<LostData, Unsolvable> {
    let mut lost = LostData::new();
    for index in (0..row.data_members()).filter(|&index| !there(row.data_member(index))) {
        lost.try_push(index).map_err(|_| Unsolvable)?;
    }
    Ok(lost)
}

/// Parity as far as it may stand for data that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is known to agree with the data.
    InSync,
    /// P gives the data of this role, if no others are lost: the array was started by force without it.
    Presumed(u16),
    /// It says nothing.
    InDoubt,
}

/// The reads that give all blocks that are `wanted` and not `there`. Parity that is not known to be in sync is read only if it
/// is wanted itself, or [presumed](Trust::Presumed) to give what is lost.
pub(super) fn needs(
    row: &Row,
    there: impl Fn(u16) -> bool,
    wanted: impl Fn(u16) -> bool,
    trust: Trust,
) -> Result<Needs, Unsolvable> {
    let mut needs = Needs { data: false, p: false, q: false };
    let missing = |role: u16| wanted(role) && !there(role);
    let parity = missing(row.p()) || row.q().is_some_and(missing);
    let data = (0..row.data_members()).any(|index| missing(row.data_member(index)));
    if !parity && !data {
        return Ok(needs);
    }
    needs.data = true;
    let lost = lost_data(row, &there)?;
    match (trust, &lost[..]) {
        (Trust::InSync, _) | (_, []) => {}
        (Trust::Presumed(role), &[index]) if row.data_member(index) == role && there(row.p()) => {}
        _ => return Err(Unsolvable),
    }
    let (p, q) = (there(row.p()), row.q().is_some_and(&there));
    match lost.len() {
        0 => {}
        1 if p => needs.p = true,
        1 if q => needs.q = true,
        2 if p && q => (needs.p, needs.q) = (true, true),
        _ => return Err(Unsolvable),
    }
    Ok(needs)
}

/// The blocks as terms of parity. Those that are taken out count as zeroes.
pub(super) fn slots<'a>(row: &Row, blocks: &'a Blocks<'_>) -> Slots<'a> {
    let mut slots: Slots<'a> = SmallSlots::zeroes(row);
    for index in 0..row.data_members() {
        slots[usize::from(row.data_slot(index))] = &*blocks[usize::from(row.data_member(index))];
    }
    slots
}

/// Some bytes of each of them.
fn slots_in<'a>(row: &Row, blocks: &'a Blocks<'_>, part: &Range<usize>) -> Slots<'a> {
    let mut slots = slots(row, blocks);
    slots.iter_mut().filter(|slot| !slot.is_empty()).for_each(|slot| *slot = &slot[part.clone()]);
    slots
}

/// Makes lists of terms.
pub(super) struct SmallSlots;

impl SmallSlots {
    /// A zero for each term of the row's parity.
    pub(super) fn zeroes<'a>(row: &Row) -> Slots<'a> {
        const NONE: &[u8] = &[];
        smallvec::smallvec![NONE; usize::from(row.slots())]
    }
}

/// Computes the lost data blocks in their places, as [`needs`] found it possible.
pub(super) fn rebuild_data(kernel: &Kernel, row: &Row, blocks: &mut Blocks<'_>, lost: &LostData, p: bool) {
    let member = |index: u16| usize::from(row.data_member(index));
    match **lost {
        [x] => {
            let out = core::mem::take(&mut blocks[member(x)]);
            let mut slots = slots(row, blocks);
            if p {
                slots.push(&*blocks[usize::from(row.p())]);
                kernel.xor(&slots, out);
            } else if let Some(q) = row.q() {
                kernel.recover_one_from_q(&slots, row.data_slot(x).into(), &*blocks[usize::from(q)], out);
            }
            drop(slots);
            blocks[member(x)] = out;
        }
        [x, y] => {
            let out_x = core::mem::take(&mut blocks[member(x)]);
            let out_y = core::mem::take(&mut blocks[member(y)]);
            if let Some(q) = row.q() {
                let slots = slots(row, blocks);
                let (p, q) = (&*blocks[usize::from(row.p())], &*blocks[usize::from(q)]);
                let (x, y) = (row.data_slot(x).into(), row.data_slot(y).into());
                kernel.recover_two(&slots, x, y, p, q, out_x, out_y);
            }
            blocks[member(x)] = out_x;
            blocks[member(y)] = out_y;
        }
        _ => {}
    }
}

/// Computes parity from slots into whichever of P and Q are given.
pub(super) fn generate(kernel: &Kernel, slots: &[&[u8]], p: Option<&mut [u8]>, q: Option<&mut [u8]>) {
    match (p, q) {
        (Some(p), Some(q)) => kernel.pq(slots, p, q),
        (Some(p), None) => kernel.xor(slots, p),
        (None, Some(q)) => kernel.q(slots, q),
        (None, None) => {}
    }
}

/// Whether P and Q, as far as given, are those of the data in some bytes of each block.
pub(super) fn agrees(
    kernel: &Kernel,
    row: &Row,
    blocks: &Blocks<'_>,
    parity: (Option<u16>, Option<u16>),
    part: Range<usize>,
) -> bool {
    let slots = slots_in(row, blocks, &part);
    let of = |role: u16| &blocks[usize::from(role)][part.clone()];
    match (parity.0.map(of), parity.1.map(of)) {
        (Some(p), Some(q)) => kernel.verify_pq(&slots, p, q),
        (Some(p), None) => kernel.verify_p(&slots, p),
        (None, Some(q)) => kernel.verify_q(&slots, q),
        (None, None) => true,
    }
}

/// Computes P and Q, as far as `wanted`, from the data blocks into the given planes.
pub(super) fn generate_into(
    kernel: &Kernel,
    row: &Row,
    blocks: &mut Blocks<'_>,
    into: (Option<u16>, Option<u16>),
) {
    let len = blocks.first().map_or(0, |block| block.len());
    generate_part(kernel, row, blocks, into, 0..len);
}

/// The same of some bytes of each block.
pub(super) fn generate_part(
    kernel: &Kernel,
    row: &Row,
    blocks: &mut Blocks<'_>,
    into: (Option<u16>, Option<u16>),
    part: Range<usize>,
) {
    let mut p = into.0.map(|plane| core::mem::take(&mut blocks[usize::from(plane)]));
    let mut q = into.1.map(|plane| core::mem::take(&mut blocks[usize::from(plane)]));
    let slots = slots_in(row, blocks, &part);
    let p_part = p.as_deref_mut().map(|block| &mut block[part.clone()]);
    let q_part = q.as_deref_mut().map(|block| &mut block[part.clone()]);
    generate(kernel, &slots, p_part, q_part);
    drop(slots);
    for (plane, block) in [(into.0, p), (into.1, q)] {
        if let (Some(plane), Some(block)) = (plane, block) {
            blocks[usize::from(plane)] = block;
        }
    }
}
