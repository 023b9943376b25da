//! A plan as JSON and as text.

use core::fmt::Write;

use brindle_planner::reliability::Interval;
use brindle_planner::{Figures, Fraction, MadeAs, Speed};
use serde_json::{Value, json};

use super::columns::{HEADS, columns, one_in, short};
use super::drives::Kind;
use super::{Answer, Row, Taken, chunk_text, words};

/// As JSON: `docs/cli-json.md` describes each key.
pub(super) fn json(answer: &Answer<'_>) -> Value {
    let terms = &answer.args.terms;
    let rows: Vec<Value> =
        answer.rows.iter().enumerate().map(|(place, row)| row_json(answer, place, row)).collect();
    json!({
        "drives": answer.kinds.iter().map(kind_json).collect::<Vec<_>>(),
        "workload": answer.asked.map(|asked| json!({
            "file": asked.file,
            "reads": asked.load.reads,
            "random": asked.load.random,
            "read_size": asked.load.read_size,
            "write_size": asked.load.write_size,
            "in_flight": asked.load.depth,
        })),
        "ashift": terms.ashift,
        "volblocksize": terms.volblocksize,
        "load_percent": terms.load,
        "link": terms.link,
        "needs": answer.needs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "total": answer.total,
        "fitting": answer.fitting,
        "listed": answer.rows.len(),
        "simulated": terms.simulate,
        "notes": answer.notes,
        "configurations": rows,
        "recommended": answer.taken.as_ref().map(|taken| taken_json(answer, taken)),
    })
}

fn kind_json(kind: &Kind) -> Value {
    let disk = &kind.known.disk;
    json!({
        "counts": kind.counts,
        "size": disk.size,
        "read_iops": disk.read_iops,
        "write_iops": disk.write_iops,
        "seq_read": disk.read_rate,
        "seq_write": disk.write_rate,
        "price": disk.price,
        "model": kind.known.named,
    })
}

fn row_json(answer: &Answer<'_>, place: usize, row: &Row) -> Value {
    let of = &row.figures;
    let fraction = |share: Option<Fraction>| share.map(|share| share.to_string());
    let mut value = json!({
        "disks": of.disks,
        "level": of.level,
        "config": of.config,
        "unlike_drives_as_the_least": of.as_the_least,
        "net": of.net,
        "allocated": of.allocated,
        "cores": of.cores,
        "tolerates": of.tolerance,
        "loss_on_double_failure": fraction(of.double),
        "loss_on_triple_failure": fraction(of.triple),
        "loss_on_third_failure": fraction(of.third),
        "rebuild_seconds": of.rebuild,
        "price": of.price,
        "price_per_tb": of.price_per_tb(),
        "loss": of.risk.as_ref().map(|risk| json!({
            "years": risk.years,
            "probability": risk.loss,
            "bytes_per_year": risk.bytes_per_year,
            "nomdl": risk.nomdl,
        })),
        "creatable": of.made_as.is_some(),
        "made_as": of.made_as.map(MadeAs::name),
        "random_is_bound": !of.is_of_md,
        "recommended": answer.taken.as_ref().is_some_and(|taken| taken.place == place),
        "formulas": of.formulas.as_ref().map(speed_json),
        "difference_percent": of.formulas.as_ref().map(|formulas| differences(&of.speed, formulas)),
    });
    if let (Value::Object(all), Value::Object(speed)) = (&mut value, speed_json(&of.speed)) {
        all.extend(speed);
    }
    value
}

fn speed_json(speed: &Speed) -> Value {
    json!({
        "random_read_iops": speed.read_iops,
        "random_write_iops": speed.write_iops,
        "workload_iops": speed.load_iops,
        "seq_read": speed.read_rate,
        "seq_write": speed.write_rate,
    })
}

/// Per cent by which the simulator is above the formulas.
pub(super) fn difference(simulated: Option<f64>, formula: Option<f64>) -> Option<f64> {
    let (simulated, formula) = (simulated?, formula.filter(|formula| *formula > 0.0)?);
    Some((simulated / formula - 1.0) * 100.0)
}

fn differences(simulated: &Speed, formulas: &Speed) -> Value {
    json!({
        "random_read_iops": difference(Some(simulated.read_iops), Some(formulas.read_iops)),
        "random_write_iops": difference(Some(simulated.write_iops), Some(formulas.write_iops)),
        "workload_iops": difference(simulated.load_iops, formulas.load_iops),
        "seq_read": difference(simulated.read_rate, formulas.read_rate),
        "seq_write": difference(simulated.write_rate, formulas.write_rate),
    })
}

fn taken_json(answer: &Answer<'_>, taken: &Taken) -> Value {
    let of = &answer.rows[taken.place].figures;
    let tried = taken.chosen.as_ref().map(|chosen| {
        let one =
            |(chunk, rate, iops): &(u64, f64, f64)| json!({"chunk": chunk, "bytes_s": rate, "iops": iops});
        chosen.tried.iter().map(one).collect::<Vec<_>>()
    });
    json!({
        "disks": of.disks,
        "level": of.level,
        "config": of.config,
        "why": taken.why,
        "chunk": taken.chunk,
        "chunks_tried": tried,
        "commands": taken.commands,
    })
}

/// For people.
pub(super) fn text(answer: &Answer<'_>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", kinds_text(answer.kinds));
    let cells: Vec<Vec<String>> = answer.rows.iter().map(|row| cells(&row.figures)).collect();
    let wanted = wanted(&cells);
    text.push_str(&line("", &HEADS.map(|(above, _)| above.to_owned()), &cells, &wanted));
    text.push_str(&line("", &HEADS.map(|(_, below)| below.to_owned()), &cells, &wanted));
    for (place, row) in cells.iter().enumerate() {
        let taken = answer.taken.as_ref().is_some_and(|taken| taken.place == place);
        text.push_str(&line(if taken { "*" } else { "" }, row, &cells, &wanted));
    }
    if let Some(more) = words::more(answer) {
        let _ = writeln!(text, "{more}");
    }
    text.push('\n');
    for (name, means) in columns(&wanted) {
        let _ = writeln!(text, "  {name:<24} {means}");
    }
    text.push('\n');
    answer.notes.iter().for_each(|note| {
        let _ = writeln!(text, "note: {note}");
    });
    recommended(&mut text, answer);
    text
}

fn recommended(text: &mut String, answer: &Answer<'_>) {
    let Some(taken) = &answer.taken else {
        text.push_str("Nothing is recommended: Brindle can make none of these.\n");
        return;
    };
    for (number, line) in reasons(answer, taken).iter().enumerate() {
        let _ = writeln!(text, "{} {line}", if number == 0 { "*" } else { " " });
    }
    taken.commands.iter().for_each(|command| {
        let _ = writeln!(text, "  {command}");
    });
}

/// Reasons for the one that is taken: why, what was tried for its chunk, why not the one with more room.
pub(super) fn reasons(answer: &Answer<'_>, taken: &Taken) -> Vec<String> {
    let mut lines = vec![format!("{}.", capital(&taken.why))];
    lines.extend(taken.chosen.as_ref().map(|chosen| {
        let each = chosen.tried.iter().map(|(size, _, iops)| format!("{iops:.0} with {}", chunk_text(*size)));
        let each = each.collect::<Vec<_>>().join(", ");
        let best = chunk_text(chosen.best);
        format!("Chunk {best}: in the simulator the load does {each} requests a second.")
    }));
    lines.extend(words::roomier(answer, taken));
    lines
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The drives to build of.
pub(super) fn kinds_text(kinds: &[Kind]) -> String {
    kinds.iter().map(kind_text).collect::<Vec<_>>().join("; and ")
}

fn kind_text(kind: &Kind) -> String {
    let disk = &kind.known.disk;
    let counts: Vec<String> = match kind.counts.as_slice() {
        [first, .., last] if kind.counts.len() > 3 => vec![format!("{first} to {last}")],
        counts => counts.iter().map(ToString::to_string).collect(),
    };
    let model = kind.known.named.as_ref().map_or_else(String::new, |named| format!(" {named}"));
    let mut text = format!(
        "{}{model} drives of {}, {:.0} random reads and {:.0} writes a second",
        counts.join(" or "),
        terabytes(disk.size),
        disk.read_iops,
        disk.write_iops
    );
    if let (Some(reads), Some(writes)) = (disk.read_rate, disk.write_rate) {
        let _ = write!(text, ", {:.0} and {:.0} MB/s in sequence", reads / 1e6, writes / 1e6);
    }
    if let Some(price) = disk.price {
        let _ = write!(text, ", {price:.2} each");
    }
    text
}

/// The cells of the columns; empty where nothing is known.
pub(super) fn cells(of: &Figures) -> Vec<String> {
    let figure = |value: Option<f64>, unit: f64| value.map_or_else(String::new, |value| short(value / unit));
    let whole = |value: Option<f64>, unit: f64| {
        value.map_or_else(String::new, |value| format!("{:.0}", value / unit))
    };
    let share = |share: Option<Fraction>| share.map_or_else(String::new, |share| share.to_string());
    let speed = &of.speed;
    vec![
        of.disks.to_string(),
        of.level.clone(),
        of.config.clone(),
        short(of.net as f64 / 1e12),
        figure(of.allocated.map(|bytes| bytes as f64), 1e12),
        whole(Some(speed.read_iops), 1.0),
        whole(Some(speed.write_iops), 1.0),
        whole(speed.load_iops, 1.0),
        whole(speed.read_rate, 1e6),
        whole(speed.write_rate, 1e6),
        of.formulas.as_ref().map_or_else(String::new, |formulas| apart(speed, formulas)),
        of.cores.map_or_else(String::new, |cores| cores.to_string()),
        of.tolerance.to_string(),
        share(of.double),
        share(of.triple),
        share(of.third),
        figure(of.rebuild, 3600.0),
        figure(of.price, 1.0),
        figure(of.price_per_tb(), 1.0),
        of.risk.map_or_else(String::new, |risk| one_in(risk.loss.value)),
        of.risk.map_or_else(String::new, |risk| within(&risk.loss)),
        of.risk.map_or_else(String::new, |risk| format!("{:.1e}", risk.bytes_per_year.value)),
    ]
}

/// An estimate and its interval.
fn within(of: &Interval) -> String {
    format!("{:.1e} ({:.1e}..{:.1e})", of.value, of.low, of.high)
}

/// Difference of the simulator from the formulas, in the order of the columns before.
fn apart(speed: &Speed, formulas: &Speed) -> String {
    let pairs = [
        (Some(speed.read_iops), Some(formulas.read_iops)),
        (Some(speed.write_iops), Some(formulas.write_iops)),
        (speed.load_iops, formulas.load_iops),
        (speed.read_rate, formulas.read_rate),
        (speed.write_rate, formulas.write_rate),
    ];
    let each = pairs.iter().filter_map(|(own, formula)| difference(*own, *formula));
    each.map(|percent| format!("{:+.0}", percent.round() + 0.0)).collect::<Vec<_>>().join(" ")
}

/// Columns in which anything stands.
pub(super) fn wanted(rows: &[Vec<String>]) -> Vec<bool> {
    (0..HEADS.len()).map(|column| rows.iter().any(|row| !row[column].is_empty())).collect()
}

/// A line of the table: names to the left, figures to the right.
fn line(mark: &str, row: &[String], all: &[Vec<String>], wanted: &[bool]) -> String {
    let mut text = format!("{mark:1}");
    for (column, cell) in row.iter().enumerate().filter(|(column, _)| wanted[*column]) {
        let heads = HEADS[column].0.len().max(HEADS[column].1.len());
        let width = all.iter().map(|row| row[column].chars().count()).fold(heads, usize::max);
        let _ = if matches!(column, 1 | 2) {
            write!(text, " {cell:<width$} ")
        } else {
            write!(text, " {cell:>width$} ")
        };
    }
    format!("{}\n", text.trim_end())
}

fn terabytes(bytes: u64) -> String {
    format!("{} TB", short(bytes as f64 / 1e12))
}
