//! Models of drives and measured tables, from unknown sources. Input: which (1 byte), then the text.

use brindle_lab::drive::{fit, parse, table, to_toml};

/// Takes the bytes as a model, or as a table that a model is fitted to.
pub fn run(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    if which & 1 == 0 {
        match parse("m.toml", &text) {
            Ok(drive) => again(&to_toml(&drive)),
            Err(error) => assert!(!error.to_string().is_empty() && error.line <= text.lines().count() + 1),
        }
        return;
    }
    match table("t.csv", &text) {
        Ok(table) => {
            assert!(table.rows.iter().all(|row| row.value > 0.0 && row.reads <= 100 && row.size > 0));
            if let Ok(fitted) = fit("t", 1 << 30, &[table]) {
                again(&to_toml(&fitted.drive));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty() && error.line <= text.lines().count()),
    }
}

/// A model that is written out is read back the same, unless a time exceeds the limits of models.
fn again(text: &str) {
    if let Ok(drive) = parse("again.toml", text) {
        assert!(drive.stations.units > 0 && drive.size > 0);
    }
}
