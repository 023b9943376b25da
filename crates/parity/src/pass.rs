//! The loops, once for all instruction sets: each [`Pass`] is one way over the blocks of a
//! [`Operands`], reading every source once and keeping all sums in registers.

use crate::simd::{Byte, Simd, Word};

/// Up to this number of sources, two cache lines are taken at a time. That is as fast as one line where the caches
/// are a core's own, and 20 % faster where a neighbour uses them too (Zen 4, P+Q of 4 blocks).
const FEW: usize = 4;

/// Bytes of a cache line.
const LINE: usize = 64;

/// How far ahead of its stores a sum of more than [`FEW`] sources asks for the lines of its results. Blocks that
/// start at like places of their pages compete for the ways of a first-level cache, and 8 sources fill one of 8: stores
/// of AVX2 then wait for the second level. With few sources the lines stay, and asking costs a twentieth.
const AHEAD: usize = 1024;

/// The blocks of one call. Which fields count is up to the pass.
pub(crate) struct Operands<'a> {
    /// Sources. Each has `len` bytes or none; none stands for zeroes.
    pub(crate) slots: &'a [&'a [u8]],
    /// P, Q and R as they were when all data was there.
    pub(crate) parity: [*const u8; 3],
    /// Where the results go. Those that the pass names are writable for `len` bytes, overlap
    /// neither each other nor a source.
    pub(crate) out: [*mut u8; 3],
    /// Row i has the factors of the parity differences that add up to result i.
    pub(crate) matrix: [[u8; 3]; 3],
    pub(crate) len: usize,
}

/// One way over all blocks.
pub(crate) trait Pass {
    /// Computes as many steps of `N` vectors as fit between `from` and the end of the blocks, and
    /// returns where it stopped.
    ///
    /// # Safety
    /// The pointers and slices of `job` that the pass uses are as `Operands` says.
    unsafe fn span<S: Simd, const N: usize>(simd: S, job: &Operands<'_>, from: usize) -> usize;
}

/// Runs a pass over all of the job: groups of vectors, vectors, words, bytes.
///
/// # Safety
/// The pointers and slices of `job` that the pass uses are as `Operands` says.
#[inline(always)]
pub(crate) unsafe fn run<S: Simd, P: Pass>(simd: S, job: &Operands<'_>) {
    // SAFETY: the caller's promise about `job` is that of `span`.
    unsafe {
        let mut at = match job.slots.len() > FEW {
            true => groups::<S, P>(simd, job, 0),
            false => pairs::<S, P>(simd, job, 0),
        };
        at = lines::<S, P>(simd, job, at);
        at = P::span::<S, 1>(simd, job, at);
        if at < job.len {
            rest::<P>(job, at);
        }
    }
}

/// The rest that does not fill a vector: words, then bytes. Compiled once for all instruction sets.
///
/// # Safety
/// As [`Pass::span`].
#[inline(never)]
unsafe fn rest<P: Pass>(job: &Operands<'_>, from: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let at = P::span::<Word, 1>(Word, job, from);
        P::span::<Byte, 1>(Byte, job, at);
    }
}

/// The main part of a run: as many vectors of each source at a time as hide the latency of one
/// multiplication.
///
/// # Safety
/// As [`Pass::span`].
#[inline(always)]
unsafe fn groups<S: Simd, P: Pass>(simd: S, job: &Operands<'_>, from: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match S::UNROLL {
            4 => P::span::<S, 4>(simd, job, from),
            2 => P::span::<S, 2>(simd, job, from),
            _ => P::span::<S, 1>(simd, job, from),
        }
    }
}

/// The main part of a run with few sources: two cache lines of each at a time.
///
/// # Safety
/// As [`Pass::span`].
#[inline(always)]
unsafe fn pairs<S: Simd, P: Pass>(simd: S, job: &Operands<'_>, from: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match 2 * LINE / S::BYTES {
            4 => P::span::<S, 4>(simd, job, from),
            2 => P::span::<S, 2>(simd, job, from),
            _ => P::span::<S, 1>(simd, job, from),
        }
    }
}

/// The end of a run that is less than a group: one cache line of each source at a time.
///
/// # Safety
/// As [`Pass::span`].
#[inline(always)]
unsafe fn lines<S: Simd, P: Pass>(simd: S, job: &Operands<'_>, from: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match LINE / S::BYTES {
            4 => P::span::<S, 4>(simd, job, from),
            2 => P::span::<S, 2>(simd, job, from),
            _ => P::span::<S, 1>(simd, job, from),
        }
    }
}

/// # Safety
/// `from` is readable for `N` vectors.
#[inline(always)]
unsafe fn load<S: Simd, const N: usize>(simd: S, from: *const u8) -> [S::Vector; N] {
    let mut group = [simd.zero(); N];
    for (i, vector) in group.iter_mut().enumerate() {
        // SAFETY: vector i of the N that the caller promises.
        *vector = unsafe { simd.load(from.add(i * S::BYTES)) };
    }
    group
}

/// # Safety
/// `to` is writable for `N` vectors.
#[inline(always)]
unsafe fn store<S: Simd, const N: usize>(simd: S, to: *mut u8, group: [S::Vector; N]) {
    for (i, vector) in group.into_iter().enumerate() {
        // SAFETY: vector i of the N that the caller promises.
        unsafe { simd.store(to.add(i * S::BYTES), vector) }
    }
}

#[inline(always)]
fn add<S: Simd, const N: usize>(simd: S, sum: &mut [S::Vector; N], data: [S::Vector; N]) {
    for (sum, data) in sum.iter_mut().zip(data) {
        *sum = simd.xor(*sum, data);
    }
}

/// The bits that are set in `a` or in any vector of `group`.
#[inline(always)]
fn any<S: Simd, const N: usize>(simd: S, a: S::Vector, group: [S::Vector; N]) -> S::Vector {
    group.into_iter().fold(a, |a, vector| simd.or(a, vector))
}

#[inline(always)]
fn times<S: Simd, const N: usize>(simd: S, mut a: [S::Vector; N], factor: S::Factor) -> [S::Vector; N] {
    for a in &mut a {
        *a = simd.times(*a, factor);
    }
    a
}

/// The sums over all slots, in registers: P, Q and R, of which those that are asked for count.
#[derive(Clone, Copy)]
struct Sums<S: Simd, const N: usize> {
    p: [S::Vector; N],
    q: [S::Vector; N],
    r: [S::Vector; N],
}

/// `N` vectors of a slot, or zeroes if it is empty.
///
/// # Safety
/// A slot that is not empty is readable from `at` for `N` vectors.
#[inline(always)]
unsafe fn data<S: Simd, const N: usize>(simd: S, slot: &[u8], at: usize) -> [S::Vector; N] {
    match slot.is_empty() {
        true => [simd.zero(); N],
        // SAFETY: by the caller's promise.
        false => unsafe { load::<S, N>(simd, slot.as_ptr().add(at)) },
    }
}

/// The values from which sums of Q and R start, for a number of slots.
#[derive(Clone, Copy)]
struct Start<S: Simd> {
    q: S::Vector,
    r: S::Vector,
}

/// The start of sums over `slots` slots: made once for a whole block, not for each of its vectors.
#[inline(always)]
fn start<S: Simd>(simd: S, slots: usize) -> Start<S> {
    let doublings = slots.saturating_sub(1);
    Start { q: simd.start(doublings), r: simd.start(2 * doublings) }
}

/// The XOR of `N` vectors of all slots: P alone.
///
/// # Safety
/// Each slot that is not empty is readable from `at` for `N` vectors.
#[inline(always)]
unsafe fn total<S: Simd, const N: usize>(simd: S, slots: &[&[u8]], at: usize) -> [S::Vector; N] {
    let mut total = [simd.zero(); N];
    for slot in slots {
        // SAFETY: by the caller's promise.
        let data = unsafe { data::<S, N>(simd, slot, at) };
        for (i, data) in data.into_iter().enumerate() {
            total[i] = simd.xor(total[i], data);
        }
    }
    total
}

/// Sums `N` vectors of all slots by Horner's rule, from the last slot down to the first. The sums
/// that are not asked for count for nothing and cost nothing.
///
/// # Safety
/// Each slot that is not empty is readable from `at` for `N` vectors.
#[inline(always)]
unsafe fn sum<S: Simd, const N: usize, const P: bool, const Q: bool, const R: bool>(
    simd: S,
    slots: &[&[u8]],
    at: usize,
    start: Start<S>,
) -> Sums<S, N> {
    let (last, slots) = slots.split_last().map_or((&[][..], slots), |(last, slots)| (*last, slots));
    // SAFETY: by the caller's promise.
    let first = unsafe { data::<S, N>(simd, last, at) };
    let from = |start| first.map(|data| simd.xor(data, start));
    let mut sums = Sums { p: first, q: from(start.q), r: from(start.r) };
    for slot in slots.iter().rev() {
        // SAFETY: by the caller's promise.
        let data = unsafe { data::<S, N>(simd, slot, at) };
        for (i, data) in data.into_iter().enumerate() {
            if P {
                sums.p[i] = simd.xor(sums.p[i], data);
            }
            if Q {
                sums.q[i] = simd.double_xor(sums.q[i], data);
            }
            if R {
                sums.r[i] = simd.quadruple_xor(sums.r[i], data);
            }
        }
    }
    sums
}

/// Asks for the lines that `N` vectors of each of `out` will be written to [`AHEAD`] bytes further on.
#[inline(always)]
fn expect<S: Simd, const N: usize>(simd: S, out: &[*mut u8], at: usize) {
    for out in out {
        for line in (0..N * S::BYTES).step_by(LINE) {
            simd.prefetch_to_write(out.wrapping_add(at + AHEAD + line));
        }
    }
}

/// The body of a pass: a loop over whole steps that fit into the job.
macro_rules! steps {
    ($job:ident, $from:ident, $at:ident, $body:block) => {{
        let step = N * S::BYTES;
        let mut $at = $from;
        while $job.len - $at >= step {
            $body
            $at += step;
        }
        $at
    }};
}

/// How many of these are wanted: the place of the next output, after those that are.
const fn count(wanted: &[bool]) -> usize {
    let mut count = 0;
    let mut i = 0;
    while i < wanted.len() {
        if wanted[i] {
            count += 1;
        }
        i += 1;
    }
    count
}

/// Writes the sums of all slots that are asked for: P alone, Q alone, P and Q, or all three. The
/// outputs stand in `Operands::out` in this order, without gaps.
pub(crate) struct Generate<const P: bool, const Q: bool, const R: bool>;

impl<const P: bool, const Q: bool, const R: bool> Pass for Generate<P, Q, R> {
    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize>(simd: S, job: &Operands<'_>, from: usize) -> usize {
        if !Q && !R {
            return steps!(job, from, at, {
                // SAFETY: a whole step is left at `at` in every block.
                unsafe { store::<S, N>(simd, job.out[0].add(at), total::<S, N>(simd, job.slots, at)) }
            });
        }
        let start = start(simd, job.slots.len());
        let many = job.slots.len() > FEW;
        steps!(job, from, at, {
            if many {
                expect::<S, N>(simd, &job.out[..count(&[P, Q, R])], at);
            }
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let sums = sum::<S, N, P, Q, R>(simd, job.slots, at, start);
                if P {
                    store::<S, N>(simd, job.out[0].add(at), sums.p);
                }
                if Q {
                    store::<S, N>(simd, job.out[count(&[P])].add(at), sums.q);
                }
                if R {
                    store::<S, N>(simd, job.out[count(&[P, Q])].add(at), sums.r);
                }
            }
        })
    }
}

/// Bytes of the block in which a [`Verify`] leaves what differs: a vector of the widest instruction set.
pub(crate) const DIFFERENCE: usize = 64;

/// Compares the sums of all slots that are asked for with P and Q of `Operands::parity`, and stores neither. Output 0 has
/// [`DIFFERENCE`] bytes, whatever `len` is; bits of it are set where any of the compared bytes differ.
pub(crate) struct Verify<const P: bool, const Q: bool>;

impl<const P: bool, const Q: bool> Pass for Verify<P, Q> {
    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize>(simd: S, job: &Operands<'_>, from: usize) -> usize {
        const { assert!(S::BYTES <= DIFFERENCE, "the difference of a vector has room") };
        let start = start(simd, job.slots.len());
        let mut differences = simd.zero();
        let end = steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let mut sums = match Q {
                    true => sum::<S, N, P, Q, false>(simd, job.slots, at, start),
                    false => {
                        let p = total::<S, N>(simd, job.slots, at);
                        Sums { p, q: p, r: p }
                    }
                };
                if P {
                    add(simd, &mut sums.p, load::<S, N>(simd, job.parity[0].add(at)));
                    differences = any(simd, differences, sums.p);
                }
                if Q {
                    add(simd, &mut sums.q, load::<S, N>(simd, job.parity[1].add(at)));
                    differences = any(simd, differences, sums.q);
                }
            }
        });
        // SAFETY: the block has room for a vector, and was written before.
        unsafe {
            let before = simd.load(job.out[0]);
            simd.store(job.out[0], simd.or(before, differences));
        }
        end
    }
}

/// Adds the sum of all slots to output 0 and, if `Q`, the sum times `matrix[1][0]` to output 1.
/// With `P` off, only the latter, and to output 0.
pub(crate) struct Update<const P: bool, const Q: bool>;

impl<const P: bool, const Q: bool> Pass for Update<P, Q> {
    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize>(simd: S, job: &Operands<'_>, from: usize) -> usize {
        let factor = simd.factor(job.matrix[1][0]);
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let delta = total::<S, N>(simd, job.slots, at);
                if P {
                    let mut p = load::<S, N>(simd, job.out[0].add(at));
                    add(simd, &mut p, delta);
                    store::<S, N>(simd, job.out[0].add(at), p);
                }
                if Q {
                    let out = job.out[count(&[P])].add(at);
                    let mut q = load::<S, N>(simd, out);
                    add(simd, &mut q, times(simd, delta, factor));
                    store::<S, N>(simd, out, q);
                }
            }
        })
    }
}

/// One lost slot from Q: output 0 is `matrix[0][1]` times the difference of Q.
pub(crate) struct RecoverQ;

impl Pass for RecoverQ {
    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize>(simd: S, job: &Operands<'_>, from: usize) -> usize {
        let factor = simd.factor(job.matrix[0][1]);
        let start = start(simd, job.slots.len());
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let mut q = sum::<S, N, false, true, false>(simd, job.slots, at, start).q;
                add(simd, &mut q, load::<S, N>(simd, job.parity[1].add(at)));
                let x = times(simd, q, factor);
                store::<S, N>(simd, job.out[0].add(at), x);
            }
        })
    }
}

/// Two lost slots from P and Q: output 0 by row 0 of the matrix, output 1 is what then is missing
/// from P.
pub(crate) struct RecoverPq;

impl Pass for RecoverPq {
    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize>(simd: S, job: &Operands<'_>, from: usize) -> usize {
        let factor_p = simd.factor(job.matrix[0][0]);
        let factor_q = simd.factor(job.matrix[0][1]);
        let start = start(simd, job.slots.len());
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let mut sums = sum::<S, N, true, true, false>(simd, job.slots, at, start);
                add(simd, &mut sums.p, load::<S, N>(simd, job.parity[0].add(at)));
                add(simd, &mut sums.q, load::<S, N>(simd, job.parity[1].add(at)));
                let mut x = times(simd, sums.p, factor_p);
                add(simd, &mut x, times(simd, sums.q, factor_q));
                add(simd, &mut sums.p, x);
                store::<S, N>(simd, job.out[0].add(at), x);
                store::<S, N>(simd, job.out[1].add(at), sums.p);
            }
        })
    }
}

/// `LOST` slots from P, Q and R by the whole matrix. A parity that is not there has factors 0 and
/// a pointer to any readable block.
pub(crate) struct RecoverPqr<const LOST: usize>;

impl<const LOST: usize> Pass for RecoverPqr<LOST> {
    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize>(simd: S, job: &Operands<'_>, from: usize) -> usize {
        let factors = job.matrix.map(|row| row.map(|constant| simd.factor(constant)));
        let start = start(simd, job.slots.len());
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let sums = sum::<S, N, true, true, true>(simd, job.slots, at, start);
                let mut differences = [sums.p, sums.q, sums.r];
                for (difference, parity) in differences.iter_mut().zip(job.parity) {
                    add(simd, difference, load::<S, N>(simd, parity.add(at)));
                }
                for (row, out) in factors.iter().zip(job.out).take(LOST) {
                    let mut lost = [simd.zero(); N];
                    for (difference, factor) in differences.iter().zip(row) {
                        add(simd, &mut lost, times(simd, *difference, *factor));
                    }
                    store::<S, N>(simd, out.add(at), lost);
                }
            }
        })
    }
}
