//! Models of drives, as command lines name them.

use std::path::Path;

use brindle_lab::drive::{self, Drive, SHIPPED, shipped};

use crate::base::failure::Failure;
use crate::base::text;

/// A model by its name, or from a file.
pub(crate) fn model(named: &str) -> Result<Drive, Failure> {
    if let Some(text) = shipped(named) {
        return Ok(drive::parse(named, text)?);
    }
    let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let text = text::read(Path::new(named)).map_err(|source| {
        let what = format!(
            "{named}: no model of this name ships ({}), and no such file can be read",
            names.join(", ")
        );
        Failure::system(what, source)
    })?;
    Ok(drive::parse(named, &text)?)
}
