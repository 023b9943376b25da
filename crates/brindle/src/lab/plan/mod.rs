//! `brindle plan`: the arrays that drives can make, and the recommended one.

mod chunk;
mod columns;
mod cores;
mod create;
mod drives;
mod loss_probability;
mod page;
mod report;
mod simulated;
mod words;

use std::fs;

use brindle_planner::{
    Allocation, Configuration, Figures, Goal, Need, Terms, compare, configurations, conflicts, figures,
    is_of_the_table, recommend,
};

use crate::base::failure::Failure;
use crate::base::report as tell;
use crate::base::units::Bytes;
use crate::flags::cli::{Columns, Order, PlanFlags, PlanFormat};
use crate::lab::predict::load::{AskedLoad, asked};
use chunk::Chosen;
use drives::Kind;
use simulated::ArraySettings;

/// The chunk size where none are tried, as `create` has it.
const USUAL_CHUNK: u64 = 512 << 10;

/// A configuration and its figures.
#[derive(Clone, Debug)]
struct Row {
    configuration: Configuration,
    figures: Figures,
}

/// The recommended configuration.
#[derive(Clone, Debug)]
struct Taken {
    /// Place in the list.
    place: usize,
    why: String,
    /// A pool has none.
    chunk: Option<u64>,
    /// The chunk sizes that were tried for it.
    chosen: Option<Chosen>,
    commands: Vec<String>,
}

/// All that a report tells.
struct Answer<'a> {
    args: &'a PlanFlags,
    kinds: &'a [Kind],
    asked: Option<&'a AskedLoad>,
    needs: &'a [Need],
    /// Number of configurations, and of those that meet the needs.
    total: usize,
    fitting: usize,
    rows: &'a [Row],
    taken: Option<Taken>,
    /// Parts that were left out of the simulation, with the reason.
    notes: Vec<String>,
}

pub(crate) fn plan(args: &PlanFlags) -> Result<(), Failure> {
    let asked = args.terms.workload.as_deref().map(asked).transpose()?;
    let kinds = drives::kinds(&args.drives, asked.as_ref(), args.terms.link)?;
    if args.sort == Some(Order::Workload) && asked.is_none() {
        let why = "give what will be asked of the array with --workload JOBFILE";
        return Err(Failure::Usage(format!("--sort workload: {why}")));
    }
    if let Some(asked) = asked.as_ref().filter(|asked| !asked.load.random)
        && kinds.iter().any(|kind| kind.known.disk.read_rate.is_none())
    {
        let why = "its places go forward, so that the drives' bandwidth counts: give --mb-s, or name a model with --drive";
        return Err(Failure::Usage(format!("--workload {}: {why}", asked.file)));
    }
    let allocation = Allocation::new(args.terms.ashift, args.terms.volblocksize);
    let terms = Terms {
        allocation: allocation.map_err(|why| Failure::Usage(why.to_string()))?,
        busy: f64::from(args.terms.load) / 100.0,
        load: asked.as_ref().map(|asked| asked.load),
        link: args.terms.link.map(|rate| rate as f64),
    };
    let mut rows = rows(args, &kinds, &terms)?;
    let reported = !matches!(args.format, Some(PlanFormat::Csv | PlanFormat::Html));
    let bounds = words::bounds(&rows, args.terms.link, reported);
    let mut notes = Vec::new();
    if args.terms.simulate {
        let set = ArraySettings { chunk: args.terms.chunk, bitmap: args.terms.bitmap_chunk };
        notes.extend(simulated::fill(&mut rows, &kinds, asked.as_ref(), set)?);
    }
    notes.extend(cores::fill(&mut rows, asked.as_ref(), args.terms.chunk).filter(|_| reported));
    notes.extend(loss_probability::fill(&mut rows, &kinds, &terms, &args.likelihood)?);
    let needs = needs(args);
    let total = rows.len();
    let mut rows = meeting(rows, &needs)?;
    let goal = goal(args, asked.as_ref());
    if args.sort.is_some() {
        rows.sort_by(|a, b| compare(&a.figures, &b.figures, goal));
    }
    let taken = take(args, &kinds, asked.as_ref(), &rows, goal)?;
    if let Some(taken) = taken.as_ref().filter(|taken| asked.is_some() && taken.chosen.is_none()) {
        notes.extend(untried(args, &kinds, &rows[taken.place].configuration));
    }
    notes.extend(bounds);
    let fitting = rows.len();
    let rows = listed(rows, args.limit as usize, taken.as_ref());
    let taken = taken.map(|taken| Taken { place: taken.place.min(rows.len().saturating_sub(1)), ..taken });
    let answer = Answer {
        args,
        kinds: &kinds,
        asked: asked.as_ref(),
        needs: &needs,
        total,
        fitting,
        rows: &rows,
        taken,
        notes,
    };
    give(&answer)
}

/// Every configuration of the levels asked for.
fn rows(args: &PlanFlags, kinds: &[Kind], terms: &Terms) -> Result<Vec<Row>, Failure> {
    let levels = words::levels(args)?;
    let mut rows = Vec::new();
    for sets in drives::sets(kinds) {
        let wanted = configurations(&sets).into_iter().filter(|one| match &levels {
            words::Levels::All => true,
            words::Levels::Table => is_of_the_table(one),
            words::Levels::Named(names) => {
                one.level().split('+').all(|part| names.iter().any(|name| name == part))
            }
        });
        rows.extend(wanted.map(|configuration| {
            let figures = figures(&configuration, terms);
            Row { configuration, figures }
        }));
    }
    Ok(rows)
}

fn needs(args: &PlanFlags) -> Vec<Need> {
    let of = &args.needs;
    let all = [
        of.min_capacity.map(Need::Capacity),
        of.min_read_iops.map(Need::ReadIops),
        of.min_write_iops.map(Need::WriteIops),
        of.min_iops.map(Need::LoadIops),
        of.max_loss.map(|most| match args.likelihood.years {
            Some(_) => Need::Risk(most.as_f64()),
            None => Need::Loss(most),
        }),
        of.tolerates.map(Need::Tolerates),
        of.budget.map(Need::Budget),
    ];
    all.into_iter().flatten().collect()
}

/// The configurations that meet all needs.
fn meeting(rows: Vec<Row>, needs: &[Need]) -> Result<Vec<Row>, Failure> {
    let all: Vec<&Figures> = rows.iter().map(|row| &row.figures).collect();
    if all.is_empty() {
        let why =
            "a level with parity takes two data drives at least in each group, and stripes take equal groups";
        return Err(Failure::Refused(format!("none of --levels can be made of so many drives: {why}")));
    }
    let excluded = conflicts(needs, &all);
    if !excluded.is_empty() {
        let lines: Vec<String> = excluded.iter().map(|one| words::conflict(one, needs)).collect();
        let count = all.len();
        return Err(Failure::Refused(format!(
            "none of the {count} configurations meets all needs: {}",
            lines.join("; ")
        )));
    }
    Ok(rows.into_iter().filter(|row| needs.iter().all(|need| need.is_met(&row.figures))).collect())
}

/// The goal of the recommendation. The one that was asked for comes first, then the load. Without either it is the
/// most writes if a capacity is required, or the most capacity if a speed is required.
fn goal(args: &PlanFlags, asked: Option<&AskedLoad>) -> Goal {
    let of = &args.needs;
    match args.sort {
        Some(order) => order.into(),
        None if asked.is_some() => Goal::LoadIops,
        None if of.min_capacity.is_some() => Goal::WriteIops,
        None if of.min_read_iops.is_some() || of.min_write_iops.is_some() => Goal::Capacity,
        None => Goal::Balance,
    }
}

fn take(
    args: &PlanFlags,
    kinds: &[Kind],
    asked: Option<&AskedLoad>,
    rows: &[Row],
    goal: Goal,
) -> Result<Option<Taken>, Failure> {
    let all: Vec<&Figures> = rows.iter().map(|row| &row.figures).collect();
    let Some((place, why)) = recommend(&all, goal) else { return Ok(None) };
    let configuration = &rows[place].configuration;
    let has_chunk = configuration.is_of_md();
    let chosen = match (args.terms.chunk, asked, kinds) {
        (None, Some(asked), [kind]) if has_chunk => chunk::choose(configuration, kind, asked)?,
        _ => None,
    };
    let given = args.terms.chunk.map(|chunk| chunk.0);
    let chunk = given.or(chosen.as_ref().map(|chosen| chosen.best)).unwrap_or(USUAL_CHUNK);
    let commands = create::commands(configuration, chunk);
    let chunk = has_chunk.then_some(chunk);
    Ok(Some(Taken { place, why, chunk, chosen, commands }))
}

/// Why no chunk was tried, where a load asked for that.
fn untried(args: &PlanFlags, kinds: &[Kind], configuration: &Configuration) -> Option<String> {
    let why = if args.terms.chunk.is_some() {
        return None;
    } else if kinds.len() > 1 {
        "the simulator takes drives that are alike"
    } else if kinds[0].known.model.is_none() {
        "the simulator needs the drives' bandwidth too: give --mb-s, or name a model with --drive"
    } else {
        return Some(format!("no chunk was tried: {} has none that counts", configuration.level()));
    };
    Some(format!("no chunk was tried: {why}"))
}

/// The rows to list, up to the limit; the recommended one is among them, in place of the last if need be.
fn listed(mut rows: Vec<Row>, limit: usize, taken: Option<&Taken>) -> Vec<Row> {
    if rows.len() > limit {
        if let Some(taken) = taken.filter(|taken| taken.place >= limit) {
            rows.swap(limit - 1, taken.place);
        }
        rows.truncate(limit);
    }
    rows
}

fn give(answer: &Answer<'_>) -> Result<(), Failure> {
    let args = answer.args;
    let format = if args.json { PlanFormat::Json } else { args.format.unwrap_or(PlanFormat::Table) };
    let figures: Vec<&Figures> = answer.rows.iter().map(|row| &row.figures).collect();
    let text = match (format, args.columns) {
        (PlanFormat::Table, _) => report::text(answer),
        (PlanFormat::Json, _) => {
            let text = serde_json::to_string_pretty(&report::json(answer));
            format!("{}\n", text.map_err(|why| Failure::output("the report", why.into()))?)
        }
        (PlanFormat::Csv, Columns::Table) => brindle_planner::published(&figures),
        (PlanFormat::Csv, Columns::All) => {
            brindle_planner::all_columns(&figures, answer.taken.as_ref().map(|taken| taken.place))
        }
        (PlanFormat::Html, _) => page::html(answer),
    };
    if matches!(format, PlanFormat::Csv | PlanFormat::Html) {
        answer.notes.iter().for_each(|note| eprintln!("brindle: {note}"));
        if let Some(more) = words::more(answer) {
            eprintln!("brindle: {more}");
        }
    }
    match &args.output {
        Some(path) => fs::write(path, text).map_err(|source| Failure::output(path.display(), source)),
        None => tell::print(&text),
    }
}

/// A chunk size as people write it.
fn chunk_text(chunk: u64) -> String {
    Bytes(chunk).to_string()
}
