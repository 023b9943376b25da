//! `brindle calibrate`: a model out of measured tables.

use core::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use brindle_lab::drive::{Fitted, Measure, Port, Table, fit, fit_reads, table, to_toml};
use brindle_lab::predict::{Compared, compare};
use serde_json::{Value, json};

use super::measured::measured;
use crate::base::exit_status::UNTRUSTED;
use crate::base::failure::Failure;
use crate::base::{report, text};
use crate::flags::cli::{Calibrate, DrivePort};

/// Mean error above which a fit is not to be trusted, per cent.
const MOST_ERROR: f64 = 10.0;

/// Less than this share of what comes through one at a time is no drive's answer to many in flight.
const SLOWER: f64 = 0.95;

/// Bytes of a drive of which only tables are known.
const USUAL: u64 = 500 << 30;

pub(crate) fn calibrate(args: &Calibrate) -> Result<ExitCode, Failure> {
    let (size, tables, mut doubts) = match &args.device {
        Some(device) => measured(device, args)?,
        None => {
            let tables = args.from.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
            (USUAL, tables, Vec::new())
        }
    };
    let size = args.size.map_or(size, |size| size.0);
    let named = args.device.as_ref().or(args.from.first());
    let name = args.name.clone().or_else(|| named.map(|path| stem(path))).unwrap_or_default();
    let fitted = match args.device.is_some() && !args.force {
        true => fit_reads(&name, size, &tables)?,
        false => fit(&name, size, &tables)?,
    };
    let fitted = match args.port {
        Some(DrivePort::Sata) => fitted.on_port(Port::Sata),
        Some(DrivePort::Nvme) => fitted.on_port(Port::Nvme),
        Some(DrivePort::NvmeConsumer) => fitted.on_port(Port::NvmeConsumer),
        None => fitted,
    };
    let model = to_toml(&fitted.drive);
    let mut rows = Vec::new();
    for table in &tables {
        let compared = compare(&fitted.drive, &table.rows)?;
        rows.extend(compared.into_iter().map(|row| (table.file.as_str(), row)));
    }
    doubts.extend(slower(&rows));
    if mean(&rows) > MOST_ERROR {
        doubts.push(format!("the model is off by {:.1} % on average, more than {MOST_ERROR} %", mean(&rows)));
    }
    let status = if doubts.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(UNTRUSTED) };
    match &args.output {
        Some(path) => fs::write(path, &model).map_err(|source| Failure::output(path.display(), source))?,
        None if args.json => {}
        None => report::print(&model)?,
    }
    if args.json {
        report::print_json(&as_json(&fitted, &model, &rows, &doubts))?;
        return Ok(status);
    }
    let text = as_text(&fitted, &rows, &doubts);
    match &args.output {
        Some(_) => report::print(&text)?,
        // The model has standard output for itself.
        None => eprint!("{text}"),
    }
    Ok(status)
}

/// Rows whose rate with many requests in flight is below that with one: then the measurement was not of the drive.
fn slower(rows: &[(&str, Compared)]) -> Vec<String> {
    let alone = |of: &Compared| {
        let same = rows
            .iter()
            .map(|(_, one)| &one.row)
            .filter(|one| (one.size, one.reads) == (of.row.size, of.row.reads));
        let rates = same.filter_map(|one| match one.measure {
            Measure::Latency => Some(1000.0 / one.value),
            Measure::Alone if one.random => Some(one.value * 1_048_576.0 / one.size as f64),
            _ => None,
        });
        rates.reduce(f64::max)
    };
    let many = rows.iter().filter(|(_, row)| row.row.measure == Measure::Saturated);
    let slow = many.filter_map(|(file, row)| Some((file, row, alone(row)?)));
    slow.filter(|(_, row, alone)| row.row.value < alone * SLOWER)
        .map(|(file, row, alone)| {
            let row = &row.row;
            format!(
                "{file}:{}: {}K, {} % reads: {:.0} requests a second with many in flight, {alone:.0} one at a time",
                row.line,
                row.size >> 10,
                row.reads,
                row.value
            )
        })
        .collect()
}

fn read(path: &Path) -> Result<Table, Failure> {
    let named = path.display().to_string();
    let text =
        text::read(path).map_err(|source| Failure::system(format!("{named}: can't be read"), source))?;
    Ok(table(&named, &text)?)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "drive".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn mean(rows: &[(&str, Compared)]) -> f64 {
    rows.iter().map(|(_, row)| row.error().abs()).sum::<f64>() / rows.len().max(1) as f64
}

fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Alone => "MiB/s",
        Measure::Saturated => "IOPS",
        Measure::Latency | Measure::Longest => "ms",
    }
}

fn as_text(fitted: &Fitted, rows: &[(&str, Compared)], doubts: &[String]) -> String {
    let mut text = String::new();
    for (file, row) in rows {
        let (compared, row) = (row, &row.row);
        let order = if row.random { "random" } else { "sequential" };
        let _ = writeln!(
            text,
            "{file}:{}: {order} {}K, {} % reads: {} {}, model {:.4}, {:+.1} %",
            row.line,
            row.size >> 10,
            row.reads,
            row.value,
            unit(row.measure),
            compared.model,
            compared.error()
        );
    }
    for (file, line, why) in &fitted.left_out {
        let _ = writeln!(text, "{file}:{line}: {why}");
    }
    for guess in &fitted.guesses {
        let _ = writeln!(text, "guessed: {guess}");
    }
    let _ = writeln!(text, "mean absolute error of {} figures: {:.2} %", rows.len(), mean(rows));
    for doubt in doubts {
        let _ = writeln!(text, "not to be trusted: {doubt}");
    }
    text
}

fn as_json(fitted: &Fitted, model: &str, rows: &[(&str, Compared)], doubts: &[String]) -> Value {
    let row = |(file, compared): &(&str, Compared)| {
        let row = &compared.row;
        json!({
            "file": file,
            "line": row.line,
            "random": row.random,
            "bs": row.size,
            "reads_percent": row.reads,
            "unit": unit(row.measure),
            "measured": row.value,
            "model": compared.model,
            "error_percent": compared.error(),
        })
    };
    let left_out =
        fitted.left_out.iter().map(|(file, line, why)| json!({"file": file, "line": line, "why": why}));
    json!({
        "model": model,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
        "guesses": fitted.guesses,
        "mean_absolute_error_percent": mean(rows),
        "trusted": doubts.is_empty(),
        "doubts": doubts,
    })
}
