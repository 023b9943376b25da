//! Files of pages, in the program; compressed once, when it starts.

use std::io::Write;

use axum::body::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A file that pages ask for.
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plain: Bytes,
    /// By gzip.
    pub(crate) packed: Bytes,
    /// For `If-None-Match`.
    pub(crate) tag: String,
}

/// All of them.
pub(crate) struct Assets(Vec<Asset>);

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! file {
    ($name:literal, $kind:expr, $path:literal) => {
        ($name, $kind, include_bytes!($path).as_slice())
    };
}

const FILES: [(&str, &str, &[u8]); 13] = [
    file!("style.css", STYLE, "../assets/style.css"),
    file!("words.js", SCRIPT, "../assets/words.js"),
    file!("draw.js", SCRIPT, "../assets/draw.js"),
    file!("mend.js", SCRIPT, "../assets/mend.js"),
    file!("charts.js", SCRIPT, "../assets/charts.js"),
    file!("overview.js", SCRIPT, "../assets/overview.js"),
    file!("item.js", SCRIPT, "../assets/item.js"),
    file!("app.js", SCRIPT, "../assets/app.js"),
    file!("uplot.js", SCRIPT, "../../lab/vendor/uPlot.iife.min.js"),
    file!("uplot.css", STYLE, "../../lab/vendor/uPlot.min.css"),
    file!("fine.svg", PICTURE, "../assets/fine.svg"),
    file!("wrong.svg", PICTURE, "../assets/wrong.svg"),
    file!("unknown.svg", PICTURE, "../assets/unknown.svg"),
];

impl Assets {
    pub(crate) fn new() -> Self {
        let of = |(name, kind, bytes): (&'static str, &'static str, &'static [u8])| Asset {
            name,
            kind,
            plain: Bytes::from_static(bytes),
            packed: packed(bytes),
            tag: tag(bytes),
        };
        Self(FILES.into_iter().map(of).collect())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Asset> {
        self.0.iter().find(|asset| asset.name == name)
    }
}

fn packed(bytes: &[u8]) -> Bytes {
    let mut into = GzEncoder::new(Vec::new(), Compression::best());
    // Memory takes everything.
    let _ = into.write_all(bytes);
    into.finish().unwrap_or_default().into()
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
        for (name, kind, bytes) in FILES {
            let text = String::from_utf8_lossy(bytes);
            let own = kind == SCRIPT && !name.starts_with("uplot");
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!own || !text.contains(forbidden), "{name}: {forbidden}");
            }
        }
    }
}
