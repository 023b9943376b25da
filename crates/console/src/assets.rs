//! Files of pages, in the program as browsers get them: compressed when it is built.

use std::io::Read;

use axum::body::Bytes;
use flate2::read::GzDecoder;

/// A file that pages ask for.
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// By gzip.
    pub(crate) packed: &'static [u8],
    /// For `If-None-Match`.
    pub(crate) tag: String,
}

/// All of them.
pub(crate) struct Assets(Vec<Asset>);

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! file {
    ($name:literal, $kind:expr) => {
        file!($name, $kind, $name)
    };
    ($name:literal, $kind:expr, $file:literal) => {
        ($name, $kind, include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".gz")).as_slice())
    };
}

const FILES: [(&str, &str, &[u8]); 13] = [
    file!("style.css", STYLE),
    file!("words.js", SCRIPT),
    file!("draw.js", SCRIPT),
    file!("mend.js", SCRIPT),
    file!("charts.js", SCRIPT),
    file!("overview.js", SCRIPT),
    file!("item.js", SCRIPT),
    file!("app.js", SCRIPT),
    file!("uplot.js", SCRIPT, "uPlot.iife.min.js"),
    file!("uplot.css", STYLE, "uPlot.min.css"),
    file!("fine.svg", PICTURE),
    file!("wrong.svg", PICTURE),
    file!("unknown.svg", PICTURE),
];

impl Asset {
    /// For a client that takes nothing that is compressed. No browser is one.
    pub(crate) fn plain(&self) -> Bytes {
        let mut plain = Vec::new();
        // It is whole, and memory takes everything.
        let _ = GzDecoder::new(self.packed).read_to_end(&mut plain);
        plain.into()
    }
}

impl Assets {
    pub(crate) fn new() -> Self {
        let of = |(name, kind, packed): (&'static str, &'static str, &'static [u8])| Asset {
            name,
            kind,
            packed,
            tag: tag(packed),
        };
        Self(FILES.into_iter().map(of).collect())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Asset> {
        self.0.iter().find(|asset| asset.name == name)
    }
}

/// A name for what these bytes are.
pub(crate) fn tag(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    use std::fmt::Write as _;
    let sum = Sha256::digest(bytes);
    let mut text = String::from("\"");
    for byte in &sum[..12] {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_weighs_little() {
        let all: usize = Assets::new().0.iter().map(|asset| asset.packed.len()).sum();
        assert!(all < 200 << 10, "{all}");
    }

    /// The policy of pages forbids it: it would not work.
    #[test]
    fn no_script_makes_code_or_markup_of_texts() {
        for asset in Assets::new().0 {
            let (name, plain) = (asset.name, asset.plain());
            let text = String::from_utf8_lossy(&plain);
            let own = asset.kind == SCRIPT && !name.starts_with("uplot");
            assert!(!text.is_empty(), "{name}");
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!own || !text.contains(forbidden), "{name}: {forbidden}");
            }
        }
    }
}
