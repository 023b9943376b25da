//! The public face: checks lengths once, then calls a pass of the chosen instruction set.

use crate::pass::{DIFFERENCE, Operands};
use crate::solve;
use crate::{MAX_SLOTS, gf};

/// One pass, compiled for one instruction set. Unsafe to call: the CPU must have it, and the job
/// must be as its fields say.
pub(crate) type Run = unsafe fn(&Operands<'_>);

/// The passes of a kernel.
pub(crate) struct Passes {
    pub(crate) xor: Run,
    pub(crate) q: Run,
    pub(crate) pq: Run,
    pub(crate) pqr: Run,
    pub(crate) verify_p: Run,
    pub(crate) verify_q: Run,
    pub(crate) verify_pq: Run,
    pub(crate) update_p: Run,
    pub(crate) update_q: Run,
    pub(crate) update_pq: Run,
    pub(crate) recover_q: Run,
    pub(crate) recover_pq: Run,
    pub(crate) recover_1: Run,
    pub(crate) recover_2: Run,
    pub(crate) recover_3: Run,
}

/// The passes of an instruction set, given its `run` (a function generic over the pass).
macro_rules! passes {
    ($($run:tt)+) => {
        $crate::kernel::Passes {
            xor: $($run)+::<$crate::pass::Generate<true, false, false>>,
            q: $($run)+::<$crate::pass::Generate<false, true, false>>,
            pq: $($run)+::<$crate::pass::Generate<true, true, false>>,
            pqr: $($run)+::<$crate::pass::Generate<true, true, true>>,
            verify_p: $($run)+::<$crate::pass::Verify<true, false>>,
            verify_q: $($run)+::<$crate::pass::Verify<false, true>>,
            verify_pq: $($run)+::<$crate::pass::Verify<true, true>>,
            update_p: $($run)+::<$crate::pass::Update<true, false>>,
            update_q: $($run)+::<$crate::pass::Update<false, true>>,
            update_pq: $($run)+::<$crate::pass::Update<true, true>>,
            recover_q: $($run)+::<$crate::pass::RecoverQ>,
            recover_pq: $($run)+::<$crate::pass::RecoverPq>,
            recover_1: $($run)+::<$crate::pass::RecoverPqr<1>>,
            recover_2: $($run)+::<$crate::pass::RecoverPqr<2>>,
            recover_3: $($run)+::<$crate::pass::RecoverPqr<3>>,
        }
    };
}
pub(crate) use passes;

/// Parity arithmetic in one instruction set that this CPU has.
///
/// # Blocks
///
/// All blocks of a call have the length of its first output, any length and alignment; anything
/// else is an error of the caller and panics. Only among sources (never among outputs or parities)
/// an **empty** slice stands for a block of zeroes, such as the holes of the DDF layouts of RAID 6.
///
/// In the calls about Q and R the place in `slots` counts: `slots[i]` has the coefficient 2^i in Q
/// and 4^i in R, in GF(2^8) with the polynomial 0x11d. At most [`MAX_SLOTS`] places are possible.
pub struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) detected: fn() -> bool,
    pub(crate) passes: Passes,
}

impl core::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Kernel").field(&self.name).finish()
    }
}

/// No parity, no output: the fields of a [`Operands`] that a pass does not look at.
const UNUSED: Operands<'static> = Operands {
    slots: &[],
    parity: [core::ptr::null(); 3],
    out: [core::ptr::null_mut(); 3],
    matrix: [[0; 3]; 3],
    len: 0,
};

/// The output pointers of a job.
fn pointers<const N: usize>(out: [&mut [u8]; N]) -> [*mut u8; 3] {
    let mut pointers = UNUSED.out;
    for (pointer, out) in pointers.iter_mut().zip(out) {
        *pointer = out.as_mut_ptr();
    }
    pointers
}

#[track_caller]
fn check_len(what: &str, len: usize, block: &[u8]) {
    assert!(block.len() == len, "{what} has {} bytes where {len} are needed", block.len());
}

#[track_caller]
fn check_slots(slots: &[&[u8]], len: usize) {
    for (i, slot) in slots.iter().enumerate() {
        assert!(
            slot.len() == len || slot.is_empty(),
            "source {i} has {} bytes where {len} or none are needed",
            slot.len()
        );
    }
}

#[track_caller]
fn check_coefficients(slots: usize) {
    assert!(slots <= MAX_SLOTS, "{slots} slots, but 2^i has only {MAX_SLOTS} distinct values");
}

impl Kernel {
    /// A short name of the instruction set, such as `avx512-gfni`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets `dst` to the XOR of all sources: P, or one lost block from all others and P.
    pub fn xor(&self, sources: &[&[u8]], dst: &mut [u8]) {
        self.generate(self.passes.xor, sources, [dst]);
    }

    /// Adds `src` to `dst`.
    pub fn xor_into(&self, src: &[u8], dst: &mut [u8]) {
        self.update(self.passes.update_p, 0, &[src], [dst]);
    }

    /// Sets P and Q of the data in `slots`.
    pub fn pq(&self, slots: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        check_coefficients(slots.len());
        self.generate(self.passes.pq, slots, [p, q]);
    }

    /// Sets Q alone, for a row whose P is lost.
    pub fn q(&self, slots: &[&[u8]], q: &mut [u8]) {
        check_coefficients(slots.len());
        self.generate(self.passes.q, slots, [q]);
    }

    /// Sets P, Q and R of the data in `slots`.
    pub fn pqr(&self, slots: &[&[u8]], p: &mut [u8], q: &mut [u8], r: &mut [u8]) {
        check_coefficients(slots.len());
        self.generate(self.passes.pqr, slots, [p, q, r]);
    }

    /// Whether `p` is the XOR of all sources. Nothing is stored.
    pub fn verify_p(&self, sources: &[&[u8]], p: &[u8]) -> bool {
        self.verify(self.passes.verify_p, sources, [p, p])
    }

    /// Whether `p` and `q` are those of the data in `slots`. Nothing is stored.
    pub fn verify_pq(&self, slots: &[&[u8]], p: &[u8], q: &[u8]) -> bool {
        check_coefficients(slots.len());
        self.verify(self.passes.verify_pq, slots, [p, q])
    }

    /// Whether `q` is that of the data in `slots`, in a row whose P is lost. Nothing is stored.
    pub fn verify_q(&self, slots: &[&[u8]], q: &[u8]) -> bool {
        check_coefficients(slots.len());
        self.verify(self.passes.verify_q, slots, [q, q])
    }

    /// Adds 2^`slot` times `src` to `dst`: brings Q up to date with a change of the data in `slot`.
    /// With twice the slot, which may go beyond [`MAX_SLOTS`], the same for R.
    pub fn mul_into(&self, slot: usize, src: &[u8], dst: &mut [u8]) {
        self.update(self.passes.update_q, slot, &[src], [dst]);
    }

    /// Brings P up to date after some slot's data changed from `old` to `new`.
    pub fn update_p(&self, old: &[u8], new: &[u8], p: &mut [u8]) {
        self.update(self.passes.update_p, 0, &[old, new], [p]);
    }

    /// Brings P and Q up to date after the data in `slot` changed from `old` to `new`.
    pub fn update_pq(&self, slot: usize, old: &[u8], new: &[u8], p: &mut [u8], q: &mut [u8]) {
        check_coefficients(slot + 1);
        self.update(self.passes.update_pq, slot, &[old, new], [p, q]);
    }

    /// Brings Q up to date after the data in `slot` changed from `old` to `new` while P is lost.
    pub fn update_q(&self, slot: usize, old: &[u8], new: &[u8], q: &mut [u8]) {
        check_coefficients(slot + 1);
        self.update(self.passes.update_q, slot, &[old, new], [q]);
    }

    /// Sets `out` to the lost data of slot `x`, from the other slots and Q; P is lost too.
    /// `slots[x]` is empty.
    pub fn recover_one_from_q(&self, slots: &[&[u8]], x: usize, q: &[u8], out: &mut [u8]) {
        self.recover(slots, [x], [None, Some(q), None], [out]);
    }

    /// Sets `out_x` and `out_y` to the lost data of slots `x` and `y`, from the other slots, P and
    /// Q. `slots[x]` and `slots[y]` are empty.
    pub fn recover_two(
        &self,
        slots: &[&[u8]],
        x: usize,
        y: usize,
        p: &[u8],
        q: &[u8],
        out_x: &mut [u8],
        out_y: &mut [u8],
    ) {
        self.recover(slots, [x, y], [Some(p), Some(q), None], [out_x, out_y]);
    }

    /// Sets `out[i]` to the lost data of slot `lost[i]`, from the other slots, P, Q and R. The lost
    /// slots are empty in `slots`.
    pub fn recover_three(
        &self,
        slots: &[&[u8]],
        lost: [usize; 3],
        p: &[u8],
        q: &[u8],
        r: &[u8],
        out: [&mut [u8]; 3],
    ) {
        self.recover(slots, lost, [Some(p), Some(q), Some(r)], out);
    }

    /// Sets `out[i]` to the lost data of slot `lost[i]`, from the other slots and whichever of P, Q
    /// and R (in this order) are there: at least as many as are lost, one to three. The lost slots
    /// are empty in `slots`, differ, and may come in any order.
    ///
    /// Lost parity is not this call's: when the data is whole again, generate it. One lost slot
    /// with P at hand is quicker by [`Kernel::xor`].
    pub fn recover<const LOST: usize>(
        &self,
        slots: &[&[u8]],
        lost: [usize; LOST],
        parity: [Option<&[u8]>; 3],
        out: [&mut [u8]; LOST],
    ) {
        const { assert!(LOST >= 1 && LOST <= 3, "one to three slots can be recovered") };
        check_coefficients(slots.len());
        let len = out[0].len();
        check_slots(slots, len);
        for x in lost {
            assert!(x < slots.len(), "slot {x} was lost of {} slots", slots.len());
            assert!(slots[x].is_empty() || len == 0, "lost slot {x} is not empty");
        }
        out.iter().for_each(|out| check_len("an output", len, out));
        parity.iter().flatten().for_each(|parity| check_len("a parity", len, parity));

        let matrix = solve::matrix(lost, parity.map(|parity| parity.is_some()));
        let run = match (LOST, parity) {
            (1, [None, Some(_), _]) => self.passes.recover_q,
            (2, [Some(_), Some(_), _]) => self.passes.recover_pq,
            (1, _) => self.passes.recover_1,
            (2, _) => self.passes.recover_2,
            _ => self.passes.recover_3,
        };
        // A parity that is absent has the factor 0, so any block can stand in for it.
        let present = parity.iter().flatten().next().map_or(UNUSED.parity[0], |parity| parity.as_ptr());
        let parity = parity.map(|parity| parity.map_or(present, <[u8]>::as_ptr));
        // SAFETY: the CPU has the instructions, for no other kernel is ever handed out. All blocks
        // have `len` bytes (slots: or none), checked above; outputs are borrowed mutably, so they
        // overlap nothing. There is a parity, or `matrix` had panicked.
        unsafe { run(&Operands { slots, parity, out: pointers(out), matrix, len }) }
    }

    /// Whether all bytes are zero: the XOR of all members of a consistent row is.
    pub fn is_zero(&self, block: &[u8]) -> bool {
        // Branch once per piece, so that the compiler can use whatever vectors it has within one.
        let (pieces, rest) = block.as_chunks::<256>();
        let or = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum | byte);
        pieces.iter().all(|piece| or(piece) == 0) && or(rest) == 0
    }

    #[track_caller]
    fn generate<const N: usize>(&self, run: Run, slots: &[&[u8]], out: [&mut [u8]; N]) {
        let len = out[0].len();
        out.iter().for_each(|out| check_len("an output", len, out));
        check_slots(slots, len);
        // SAFETY: the CPU has the instructions, for no other kernel is ever handed out. All blocks
        // have `len` bytes (slots: or none), checked above; outputs are borrowed mutably, so they
        // overlap nothing.
        unsafe { run(&Operands { slots, out: pointers(out), len, ..UNUSED }) }
    }

    #[track_caller]
    fn verify(&self, run: Run, slots: &[&[u8]], [p, q]: [&[u8]; 2]) -> bool {
        let len = p.len();
        check_slots(slots, len);
        check_len("a parity", len, q);
        let mut difference = [0; DIFFERENCE];
        let parity = [p.as_ptr(), q.as_ptr(), UNUSED.parity[0]];
        // SAFETY: the CPU has the instructions, for no other kernel is ever handed out. Slots (unless they have none) and
        // parities have `len` bytes, checked above; the output is of this call alone, and as long as the pass wants.
        unsafe { run(&Operands { slots, parity, out: pointers([&mut difference]), len, ..UNUSED }) };
        difference == [0; DIFFERENCE]
    }

    #[track_caller]
    fn update<const N: usize>(&self, run: Run, slot: usize, sources: &[&[u8]], out: [&mut [u8]; N]) {
        let len = out[0].len();
        out.iter().for_each(|out| check_len("an output", len, out));
        check_slots(sources, len);
        let matrix = [[0; 3], [gf::power(slot), 0, 0], [0; 3]];
        // SAFETY: as in `generate`; and the outputs were written before, being slices.
        unsafe { run(&Operands { slots: sources, out: pointers(out), matrix, len, ..UNUSED }) }
    }
}
