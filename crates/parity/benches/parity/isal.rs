//! ISA-L, found when the bench starts: the program must not depend on it.

use std::ffi::{c_int, c_uchar, c_void};

use libloading::Library;

type Generate = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;
type Tables = unsafe extern "C" fn(c_int, c_int, *const c_uchar, *mut c_uchar);
type Encode =
    unsafe extern "C" fn(c_int, c_int, c_int, *const c_uchar, *const *const c_uchar, *const *mut c_uchar);

/// ISA-L's functions for one instruction set, without its own choice among them.
pub(crate) struct Isal {
    /// The set as the names of its functions end.
    pub(crate) name: &'static str,
    xor: Generate,
    pq: Generate,
    tables: Tables,
    encode: Encode,
    /// Keeps the functions in memory.
    _library: Library,
}

/// The sets that ISA-L chooses on CPUs for which a kernel is the best, best first: versions before 2.32 have no P+Q with
/// GFNI.
pub(crate) fn sets(kernel: &str) -> &'static [&'static str] {
    match kernel {
        "portable" => &["base"],
        "avx2" => &["avx2"],
        "avx2-gfni" => &["avx2_gfni", "avx2"],
        "avx512" => &["avx512"],
        "avx512-gfni" => &["avx512_gfni", "avx512"],
        "neon" => &["neon"],
        _ => &[],
    }
}

impl Isal {
    /// Whether the library is there at all.
    pub(crate) fn is_there() -> bool {
        Self::library().is_some()
    }

    fn library() -> Option<Library> {
        // SAFETY: libisal has no initialisers that do anything.
        unsafe { Library::new("libisal.so.2").ok() }
    }

    /// Opens the functions of a set, if the library has them. The CPU must have the set, as one that runs the
    /// kernel does.
    pub(crate) fn open(name: &'static str) -> Option<Self> {
        let library = Self::library()?;
        // The only XOR for AVX2 is that for AVX; GFNI is of no use to it.
        let xor = match name {
            "avx2" | "avx2_gfni" => "avx",
            "avx512_gfni" => "avx512",
            _ => name,
        };
        // GFNI has tables of its own. Versions without it have but one form.
        let tables = if name.ends_with("gfni") { "ec_init_tables_gfni" } else { "ec_init_tables_base" };
        // SAFETY: the types of these functions are those of ISA-L's headers raid.h and erasure_code.h.
        unsafe {
            Some(Self {
                name,
                xor: *library.get(format!("xor_gen_{xor}").as_bytes()).ok()?,
                pq: *library.get(format!("pq_gen_{name}").as_bytes()).ok()?,
                encode: *library.get(format!("ec_encode_data_{name}").as_bytes()).ok()?,
                tables: *library.get(tables.as_bytes()).or_else(|_| library.get(b"ec_init_tables")).ok()?,
                _library: library,
            })
        }
    }

    /// Cleans the upper halves of the vector registers, which ISA-L leaves in use: SSE code that runs
    /// after it, such as the portable kernel, would be three times slower.
    #[cfg(target_arch = "x86_64")]
    fn leave(&self) {
        if std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: the CPU has AVX; the upper halves belong to no caller.
            unsafe { std::arch::x86_64::_mm256_zeroupper() }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn leave(&self) {}

    /// `dst` = XOR of `data`. All blocks are aligned to 32 bytes, as ISA-L demands.
    pub(crate) fn xor(&self, data: &[&[u8]], dst: &mut [u8]) {
        // SAFETY: the pointers are those of the blocks, whose lengths are equal (`arguments`
        // checks); xor_gen reads all but the last, which it writes.
        unsafe {
            let (count, len, mut array) = arguments(data, [dst]);
            (self.xor)(count, len, array.as_mut_ptr());
        }
        self.leave();
    }

    /// P and Q of `data`. All blocks are aligned to 32 bytes.
    pub(crate) fn pq(&self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        // SAFETY: as in `xor`; pq_gen writes the last two.
        unsafe {
            let (count, len, mut array) = arguments(data, [p, q]);
            (self.pq)(count, len, array.as_mut_ptr());
        }
        self.leave();
    }

    /// The tables of a code whose coefficients stand in `matrix`, one row for each output.
    pub(crate) fn tables(&self, data: usize, matrix: &[u8]) -> Vec<u8> {
        let mut tables = vec![0; 32 * matrix.len()];
        // SAFETY: ec_init_tables reads data * rows coefficients and writes 32 bytes for each.
        unsafe {
            let rows = matrix.len() / data;
            (self.tables)(data as c_int, rows as c_int, matrix.as_ptr(), tables.as_mut_ptr());
        }
        tables
    }

    /// Outputs of the code of `tables`.
    pub(crate) fn encode<const N: usize>(&self, tables: &[u8], data: &[&[u8]], out: [&mut [u8]; N]) {
        assert_eq!(tables.len(), 32 * data.len() * N);
        // SAFETY: tables and blocks have the sizes that ec_encode_data is told of.
        unsafe {
            let (count, len, array) = arguments(data, out);
            let (sources, out) = array.split_at(data.len());
            (self.encode)(
                len,
                count - N as c_int,
                N as c_int,
                tables.as_ptr(),
                sources.as_ptr().cast(),
                out.as_ptr().cast(),
            );
        }
        self.leave();
    }
}

/// The number of blocks, their length and their addresses.
fn arguments<const N: usize>(data: &[&[u8]], out: [&mut [u8]; N]) -> (c_int, c_int, [*mut c_void; 16]) {
    let len = out[0].len();
    assert!(data.iter().all(|block| block.len() == len) && out.iter().all(|block| block.len() == len));
    assert!(data.len() + N <= 16);
    let mut array = [std::ptr::null_mut(); 16];
    let sources = data.iter().map(|block| block.as_ptr().cast_mut());
    let addresses = sources.chain(out.map(<[u8]>::as_mut_ptr));
    for (to, address) in array.iter_mut().zip(addresses) {
        *to = address.cast();
    }
    ((data.len() + N) as c_int, len as c_int, array)
}
