//! The loops, once for all instruction sets: each [`Pass`] is one way over the blocks of a
//! [`Operands`], reading every source once and keeping all sums in registers.

use crate::simd::{Byte, Simd, Word};

/// How far ahead of its loads a streaming pass prefetches. On Zen 4 anything from 0 to 4 KiB is
/// as good; on Emerald Rapids this distance and streaming together gained a quarter.
const AHEAD: usize = 2048;

/// Up to as many sources are taken two cache lines at a time if they may be in a cache: as fast as one line where the
/// caches are a core's own, and 20 % faster where a neighbour uses them too (Zen 4, P+Q of 4 blocks).
const FEW: usize = 4;

/// Bytes of a cache line.
const LINE: usize = 64;

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
    /// How many of `Operands::out` are written.
    const OUTPUTS: usize;
    /// Whether whole vectors go around the caches.
    const STREAM: bool = false;

    /// Computes as many steps of `N` vectors as fit between `from` and the end of the blocks, and
    /// returns where it stopped.
    ///
    /// # Safety
    /// The pointers and slices of `job` that the pass uses are as `Operands` says. If `STREAM`, all
    /// outputs at `from` are aligned to `S::BYTES`.
    unsafe fn span<S: Simd, const N: usize, const STREAM: bool>(
        simd: S,
        job: &Operands<'_>,
        from: usize,
    ) -> usize;
}

/// Runs a pass over all of the job: groups of vectors, vectors, words, bytes.
///
/// # Safety
/// The pointers and slices of `job` that the pass uses are as `Operands` says.
#[inline(always)]
pub(crate) unsafe fn run<S: Simd, P: Pass>(simd: S, job: &Operands<'_>) {
    // SAFETY: the caller's promise about `job` is that of `span`; `lines` only where the outputs were
    // found to be aligned.
    unsafe {
        let mut at = 0;
        if P::STREAM
            && let Some(head) = aligned_from::<S>(&job.out[..P::OUTPUTS], job.len)
        {
            if head > 0 {
                rest::<P>(&Operands { len: head, ..*job }, 0);
            }
            at = lines::<S, P, true>(simd, job, head);
            simd.fence();
        } else if job.slots.len() > FEW {
            at = groups::<S, P>(simd, job, at);
        } else {
            at = pairs::<S, P>(simd, job, at);
        }
        at = lines::<S, P, false>(simd, job, at);
        at = P::span::<S, 1, false>(simd, job, at);
        if at < job.len {
            rest::<P>(job, at);
        }
    }
}

/// What is not whole vectors: words, then bytes. Compiled once for all instruction sets.
///
/// # Safety
/// As [`Pass::span`].
#[inline(never)]
unsafe fn rest<P: Pass>(job: &Operands<'_>, from: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let at = P::span::<Word, 1, false>(Word, job, from);
        P::span::<Byte, 1, false>(Byte, job, at);
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
            4 => P::span::<S, 4, false>(simd, job, from),
            2 => P::span::<S, 2, false>(simd, job, from),
            _ => P::span::<S, 1, false>(simd, job, from),
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
            4 => P::span::<S, 4, false>(simd, job, from),
            2 => P::span::<S, 2, false>(simd, job, from),
            _ => P::span::<S, 1, false>(simd, job, from),
        }
    }
}

/// The main part of a streaming run: one cache line of each source at a time. Measured on Zen 4 with
/// cold blocks, this gains 10 to 20 % over four lines, since more sources wait for memory at once.
///
/// # Safety
/// As [`Pass::span`]; if `STREAM`, all outputs at `from` are aligned to a vector.
#[inline(always)]
unsafe fn lines<S: Simd, P: Pass, const STREAM: bool>(simd: S, job: &Operands<'_>, from: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match LINE / S::BYTES {
            4 => P::span::<S, 4, STREAM>(simd, job, from),
            2 => P::span::<S, 2, STREAM>(simd, job, from),
            _ => P::span::<S, 1, STREAM>(simd, job, from),
        }
    }
}

/// The first offset at which all outputs are aligned to a vector, if there is one in the block.
#[inline(always)]
fn aligned_from<S: Simd>(out: &[*mut u8], len: usize) -> Option<usize> {
    let head = out[0].addr().wrapping_neg() % S::BYTES;
    let aligned = |out: &*mut u8| out.addr().wrapping_add(head).is_multiple_of(S::BYTES);
    (head <= len && out.iter().all(aligned)).then_some(head)
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
/// `to` is writable for `N` vectors; if `STREAM`, aligned to one.
#[inline(always)]
unsafe fn store<S: Simd, const N: usize, const STREAM: bool>(simd: S, to: *mut u8, group: [S::Vector; N]) {
    for (i, vector) in group.into_iter().enumerate() {
        // SAFETY: vector i of the N that the caller promises; whole vectors keep the alignment.
        unsafe {
            let to = to.add(i * S::BYTES);
            if STREAM { simd.stream(to, vector) } else { simd.store(to, vector) }
        }
    }
}

#[inline(always)]
fn add<S: Simd, const N: usize>(simd: S, sum: &mut [S::Vector; N], data: [S::Vector; N]) {
    for (sum, data) in sum.iter_mut().zip(data) {
        *sum = simd.xor(*sum, data);
    }
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

/// Sums `N` vectors of all slots by Horner's rule, from the last slot down to the first. The sums
/// that are not asked for are zero and cost nothing.
///
/// # Safety
/// Each slot that is not empty is readable from `at` for `N` vectors.
#[inline(always)]
unsafe fn sum<S: Simd, const N: usize, const P: bool, const Q: bool, const R: bool>(
    simd: S,
    slots: &[&[u8]],
    at: usize,
    ahead: bool,
) -> Sums<S, N> {
    let zero = [simd.zero(); N];
    let mut sums = Sums { p: zero, q: zero, r: zero };
    for slot in slots.iter().rev() {
        let mut data = zero;
        if !slot.is_empty() {
            if ahead {
                let next = slot.as_ptr().wrapping_add(at + AHEAD);
                for line in (0..N * S::BYTES).step_by(LINE) {
                    simd.prefetch(next.wrapping_add(line));
                }
            }
            // SAFETY: by the caller's promise.
            data = unsafe { load::<S, N>(simd, slot.as_ptr().add(at)) };
        }
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
pub(crate) struct Generate<const P: bool, const Q: bool, const R: bool, const AROUND: bool>;

impl<const P: bool, const Q: bool, const R: bool, const AROUND: bool> Pass for Generate<P, Q, R, AROUND> {
    const OUTPUTS: usize = count(&[P, Q, R]);
    const STREAM: bool = AROUND;

    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize, const STREAM: bool>(
        simd: S,
        job: &Operands<'_>,
        from: usize,
    ) -> usize {
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block; alignment by the caller's promise,
            // which steps of whole vectors keep.
            unsafe {
                let sums = sum::<S, N, P, Q, R>(simd, job.slots, at, STREAM);
                if P {
                    store::<S, N, STREAM>(simd, job.out[0].add(at), sums.p);
                }
                if Q {
                    store::<S, N, STREAM>(simd, job.out[count(&[P])].add(at), sums.q);
                }
                if R {
                    store::<S, N, STREAM>(simd, job.out[count(&[P, Q])].add(at), sums.r);
                }
            }
        })
    }
}

/// Adds the sum of all slots to output 0 and, if `Q`, the sum times `matrix[1][0]` to output 1.
/// With `P` off, only the latter, and to output 0.
pub(crate) struct Update<const P: bool, const Q: bool>;

impl<const P: bool, const Q: bool> Pass for Update<P, Q> {
    const OUTPUTS: usize = count(&[P, Q]);

    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize, const STREAM: bool>(
        simd: S,
        job: &Operands<'_>,
        from: usize,
    ) -> usize {
        let factor = simd.factor(job.matrix[1][0]);
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let delta = sum::<S, N, true, false, false>(simd, job.slots, at, false).p;
                if P {
                    let mut p = load::<S, N>(simd, job.out[0].add(at));
                    add(simd, &mut p, delta);
                    store::<S, N, false>(simd, job.out[0].add(at), p);
                }
                if Q {
                    let out = job.out[count(&[P])].add(at);
                    let mut q = load::<S, N>(simd, out);
                    add(simd, &mut q, times(simd, delta, factor));
                    store::<S, N, false>(simd, out, q);
                }
            }
        })
    }
}

/// One lost slot from Q: output 0 is `matrix[0][1]` times the difference of Q.
pub(crate) struct RecoverQ;

impl Pass for RecoverQ {
    const OUTPUTS: usize = 1;

    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize, const STREAM: bool>(
        simd: S,
        job: &Operands<'_>,
        from: usize,
    ) -> usize {
        let factor = simd.factor(job.matrix[0][1]);
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let mut q = sum::<S, N, false, true, false>(simd, job.slots, at, false).q;
                add(simd, &mut q, load::<S, N>(simd, job.parity[1].add(at)));
                let x = times(simd, q, factor);
                store::<S, N, false>(simd, job.out[0].add(at), x);
            }
        })
    }
}

/// Two lost slots from P and Q: output 0 by row 0 of the matrix, output 1 is what then is missing
/// from P.
pub(crate) struct RecoverPq;

impl Pass for RecoverPq {
    const OUTPUTS: usize = 2;

    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize, const STREAM: bool>(
        simd: S,
        job: &Operands<'_>,
        from: usize,
    ) -> usize {
        let factor_p = simd.factor(job.matrix[0][0]);
        let factor_q = simd.factor(job.matrix[0][1]);
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let mut sums = sum::<S, N, true, true, false>(simd, job.slots, at, false);
                add(simd, &mut sums.p, load::<S, N>(simd, job.parity[0].add(at)));
                add(simd, &mut sums.q, load::<S, N>(simd, job.parity[1].add(at)));
                let mut x = times(simd, sums.p, factor_p);
                add(simd, &mut x, times(simd, sums.q, factor_q));
                add(simd, &mut sums.p, x);
                store::<S, N, false>(simd, job.out[0].add(at), x);
                store::<S, N, false>(simd, job.out[1].add(at), sums.p);
            }
        })
    }
}

/// `LOST` slots from P, Q and R by the whole matrix. A parity that is not there has factors 0 and
/// a pointer to any readable block.
pub(crate) struct RecoverPqr<const LOST: usize>;

impl<const LOST: usize> Pass for RecoverPqr<LOST> {
    const OUTPUTS: usize = LOST;

    #[inline(always)]
    unsafe fn span<S: Simd, const N: usize, const STREAM: bool>(
        simd: S,
        job: &Operands<'_>,
        from: usize,
    ) -> usize {
        let factors = job.matrix.map(|row| row.map(|constant| simd.factor(constant)));
        steps!(job, from, at, {
            // SAFETY: a whole step is left at `at` in every block.
            unsafe {
                let sums = sum::<S, N, true, true, true>(simd, job.slots, at, false);
                let mut differences = [sums.p, sums.q, sums.r];
                for (difference, parity) in differences.iter_mut().zip(job.parity) {
                    add(simd, difference, load::<S, N>(simd, parity.add(at)));
                }
                for (row, out) in factors.iter().zip(job.out).take(LOST) {
                    let mut lost = [simd.zero(); N];
                    for (difference, factor) in differences.iter().zip(row) {
                        add(simd, &mut lost, times(simd, *difference, *factor));
                    }
                    store::<S, N, false>(simd, out.add(at), lost);
                }
            }
        })
    }
}
