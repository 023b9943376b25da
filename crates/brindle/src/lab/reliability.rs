//! `brindle reliability`: how likely data is lost.

use core::fmt::Write;

use brindle_planner::reliability::{
    CLASSES, Case, Class, Effort, Estimate, Group, HOURS_PER_YEAR, Interval, Method, Published, Unsound,
    Weibull, estimate,
};
use serde_json::{Value, json};

use crate::base::failure::Failure;
use crate::base::{progress, report};
use crate::flags::cli::Reliability;

/// Bytes an hour that a rebuild moves where no time was given.
const REBUILD: f64 = 150e6 * 3600.0;

pub(crate) fn reliability(args: &Reliability) -> Result<(), Failure> {
    if args.classes {
        return classes(args.json);
    }
    let (class, case) = question(args)?;
    let effort = effort(args);
    let bar = progress::steps("histories", effort.histories);
    let reported = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let found = estimate(&case, &effort, &reported).map_err(|why| unsound(&why))?;
    bar.finish_and_clear();
    if args.json {
        return report::print_json(&as_json(args, class, &case, &effort, &found));
    }
    report::print(&text(args, class, &case, &effort, &found))
}

fn unsound(why: &Unsound) -> Failure {
    Failure::Usage(format!("--{why}"))
}

fn effort(args: &Reliability) -> Effort {
    let until_relative_error = args.until_relative_error;
    let most = if until_relative_error.is_some() { 100_000_000 } else { 100_000 };
    Effort {
        histories: args.histories.unwrap_or(most),
        until_relative_error,
        confidence: args.confidence,
        seed: args.seed,
        threads: args.threads,
        method: if args.plain { Method::Plain } else { Method::Weighted },
    }
}

/// The class, if its failures are used, and the question.
fn question(args: &Reliability) -> Result<(Option<&'static Class>, Case), Failure> {
    let Some(class) = Class::named(&args.class) else {
        let known: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
        return Err(Failure::Usage(format!("--class {}: there are {}", args.class, known.join(", "))));
    };
    let own = own_failures(args)?;
    let (drives, bears, groups) = shape(args)?;
    let case = Case {
        group: Group::new(drives, bears, args.size),
        groups,
        failures: own.unwrap_or_else(|| class.failures()),
        repairs: args.repairs.unwrap_or(Weibull {
            location: (args.size as f64 / REBUILD * 100.0).round() / 100.0,
            shape: 2.0,
            scale: 12.0,
        }),
        delay: args.delay.unwrap_or(Weibull::constant(0.0)),
        defects: args.defects.unwrap_or(class.defects),
        scrub: args.scrub.0,
        wrong_pull: args.wrong_pull,
        batch: args.batch.map(|batch| batch.0),
        hours: args.years * HOURS_PER_YEAR,
    };
    Ok((own.is_none().then_some(class), case))
}

/// Failures as they were given.
fn own_failures(args: &Reliability) -> Result<Option<Weibull>, Failure> {
    match (args.afr, args.annual_share) {
        (Some(afr), _) if afr.is_finite() && afr > 0.0 && afr <= 10_000.0 => {
            Ok(Some(Weibull::exponential(HOURS_PER_YEAR * 100.0 / afr)))
        }
        (Some(afr), _) => Err(Failure::Usage(format!(
            "--afr {afr}: give failures in a hundred drive-years, more than 0 and at most 10000"
        ))),
        (None, Some(share)) if share > 0.0 && share < 100.0 => {
            Ok(Some(Weibull::exponential(-HOURS_PER_YEAR / (-share / 100.0).ln_1p())))
        }
        (None, Some(share)) => Err(Failure::Usage(format!(
            "--annual-share {share}: give per cent of drives, more than 0 and less than 100"
        ))),
        (None, None) => Ok(args.failures),
    }
}

/// Failures of a drive in a year, where the rate is constant.
fn annual_failures(case: &Case) -> Option<f64> {
    case.failures.is_exponential().then(|| HOURS_PER_YEAR / case.failures.mean())
}

/// The share of drives that fail in their first year.
fn first_year(case: &Case) -> f64 {
    1.0 - case.failures.survival(HOURS_PER_YEAR)
}

/// Drives of a group, failures that it bears, and how many groups there are.
fn shape(args: &Reliability) -> Result<(u32, u32, u32), Failure> {
    let Some(level) = &args.level else { return Ok((args.drives, args.bears.unwrap_or(0), args.groups)) };
    let bare = level.strip_prefix("raid").unwrap_or(level);
    let (drives, groups) = (args.drives, args.groups);
    let bears = match bare {
        "0" => 0,
        "1" => drives.saturating_sub(1),
        "4" | "5" | "z" | "z1" => 1,
        "6" | "z2" => 2,
        "z3" => 3,
        "10" if drives > 0 && drives.is_multiple_of(2) => {
            return Ok((2, 1, groups.saturating_mul(drives / 2)));
        }
        "10" => {
            let why = "copies overlap where drives are no pairs: brindle plan tells of such arrays";
            return Err(Failure::Usage(format!("--level 10 of {drives} drives: {why}")));
        }
        _ => {
            let why = "give 0, 1, 4, 5, 6, 10, raidz1, raidz2 or raidz3, or --bears COUNT";
            return Err(Failure::Usage(format!("--level {level}: {why}")));
        }
    };
    Ok((drives, bears, groups))
}

fn classes(as_json: bool) -> Result<(), Failure> {
    if as_json {
        return report::print_json(&CLASSES.iter().map(class_json).collect::<Vec<_>>());
    }
    let mut text = String::new();
    for class in &CLASSES {
        let _ = writeln!(text, "{}: {}", class.name, class.about);
        let rate = class.annual_rate();
        let _ = match class.failures {
            Published::Counts { failures, drive_days } => writeln!(
                text,
                "  fails: {:.2} in 100 drive-years ({:.2} to {:.2}: {failures} failures in {drive_days} drive days)",
                rate.value * 100.0,
                rate.low * 100.0,
                rate.high * 100.0
            ),
            Published::Fitted(weibull) => {
                writeln!(text, "  fails: {:.2} % in the first year (Weibull {weibull})", rate.value * 100.0)
            }
        };
        let _ = writeln!(text, "    {}", class.source);
        let _ = writeln!(text, "  defects: {:.2e} an hour\n    {}", class.defects, class.defects_source);
    }
    report::print(&text)
}

fn class_json(class: &Class) -> Value {
    let counts = match class.failures {
        Published::Counts { failures, drive_days } => json!({"failures": failures, "drive_days": drive_days}),
        Published::Fitted(_) => Value::Null,
    };
    json!({
        "name": class.name,
        "about": class.about,
        "failures": class.failures().to_string(),
        "counts": counts,
        "annual_rate": class.annual_rate(),
        "source": class.source,
        "defects": class.defects,
        "defects_source": class.defects_source,
    })
}

/// As JSON: `docs/cli-json.md` describes each key.
fn as_json(
    args: &Reliability,
    class: Option<&Class>,
    case: &Case,
    effort: &Effort,
    found: &Estimate,
) -> Value {
    json!({
        "drives": case.group.drives,
        "bears": bears(case),
        "groups": case.groups,
        "capacity": case.capacity(),
        "years": args.years,
        "class": class.map(class_json),
        "failures": case.failures.to_string(),
        "afr": annual_failures(case).map(|rate| rate * 100.0),
        "first_year": first_year(case),
        "repairs": case.repairs.to_string(),
        "delay": case.delay.to_string(),
        "scrub": case.scrub.map(|scrub| scrub.to_string()),
        "defects": case.defects,
        "wrong_pull": case.wrong_pull,
        "batch": case.batch.map(|batch| json!({"share": batch.share, "factor": batch.factor})),
        "confidence": effort.confidence,
        "loss": found.loss,
        "loss_per_year": found.loss_per_year,
        "whole": found.whole,
        "losses": found.losses,
        "whole_losses": found.wholes,
        "sector_losses": found.sectors,
        "bytes_lost": found.bytes,
        "nomdl": found.nomdl,
        "markov": {"mttdl_hours": found.mttdl},
        "exact": found.exact,
        "seed": effort.seed,
        "plain": args.plain,
        "histories": found.histories,
        "met": found.met,
    })
}

fn bears(case: &Case) -> Option<u32> {
    match case.group.redundancy {
        brindle_planner::reliability::Redundancy::Bears(bears) => Some(bears),
        brindle_planner::reliability::Redundancy::Fatal(_) => None,
    }
}

/// For people.
fn text(args: &Reliability, class: Option<&Class>, case: &Case, effort: &Effort, found: &Estimate) -> String {
    let mut text = String::new();
    let groups = if case.groups == 1 { "A group".to_owned() } else { format!("{} groups", case.groups) };
    let many = |count: f64| if count == 1.0 { "" } else { "s" };
    let borne = bears(case).unwrap_or(0);
    let _ = writeln!(
        text,
        "{groups} of {} drives, bearing {borne} failure{}, {:.2} TB for users, new, over {} year{}",
        case.group.drives,
        many(borne.into()),
        case.capacity() / 1e12,
        args.years,
        many(args.years)
    );
    drives(&mut text, class, case);
    let sure = format!("{} % confidence", effort.confidence * 100.0);
    let _ = writeln!(text, "  any data lost:     {}, {sure}", range(&found.loss, &share));
    let _ = writeln!(text, "    in a year:       {}", range(&found.loss_per_year, &share));
    let _ = writeln!(text, "  a group lost:      {}", range(&found.whole, &share));
    let _ = writeln!(
        text,
        "  losses of 1000:    {}: {} of groups, {} of sectors",
        range(&found.losses, &|losses| figure(losses * 1000.0)),
        figure(found.wholes.value * 1000.0),
        figure(found.sectors.value * 1000.0)
    );
    let _ = writeln!(text, "  bytes lost:        {}", range(&found.bytes, &figure));
    let _ = writeln!(text, "    of the capacity: {} (NOMDL)", range(&found.nomdl, &figure));
    markov(&mut text, args.years, case, found);
    let _ = writeln!(
        text,
        "  {} histories, seed {}, {} came to a loss or near one",
        found.histories, effort.seed, found.met
    );
    text
}

fn drives(text: &mut String, class: Option<&Class>, case: &Case) {
    let named = class.map_or_else(String::new, |class| format!(" ({}: {})", class.name, class.source));
    let rate = annual_failures(case).map_or_else(String::new, |rate| {
        format!("{} in 100 drive-years at a constant rate, ", figure(rate * 100.0))
    });
    let first = share(first_year(case));
    let _ =
        writeln!(text, "  failures {}: {rate}{first} of drives in their first year{named}", case.failures);
    let scrub = case.scrub.map_or_else(|| "none".to_owned(), |scrub| scrub.to_string());
    let delay = if case.delay.mean() > 0.0 { case.delay.to_string() } else { "none".to_owned() };
    let _ = writeln!(
        text,
        "  repairs {}, delay {delay}, defects {} an hour, scrub {scrub}",
        case.repairs,
        figure(case.defects)
    );
    if let Some(batch) = case.batch {
        let _ = writeln!(
            text,
            "  a delivery is bad with {}, and fails {} times as often",
            share(batch.share),
            batch.factor
        );
    }
    if case.wrong_pull > 0.0 {
        let _ = writeln!(text, "  a wrong drive is pulled with {}", share(case.wrong_pull));
    }
}

fn markov(text: &mut String, years: f64, case: &Case, found: &Estimate) {
    if let Some(hours) = found.mttdl {
        let mean = hours / HOURS_PER_YEAR;
        let _ = writeln!(
            text,
            "  for comparison:    a Markov chain's MTTDL is {} years, {} of 1000; it knows no defects, no age, no people",
            figure(mean),
            figure(1000.0 * years / mean)
        );
    }
    if let Some(exact) = found.exact {
        let why = match bears(case) {
            Some(0) => "every failure and every defect is a loss",
            _ => "all rates are constant",
        };
        let _ = writeln!(text, "  exact:             {} of any data lost, since {why}", share(exact));
    }
}

fn range(of: &Interval, show: &dyn Fn(f64) -> String) -> String {
    if of.low == of.high {
        return show(of.value);
    }
    format!("{} ({} to {})", show(of.value), show(of.low), show(of.high))
}

fn share(share: f64) -> String {
    if share >= 1e-4 { format!("{} %", figure(share * 100.0)) } else { figure(share) }
}

/// Three digits.
fn figure(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if !(0.01..1e5).contains(&value) => format!("{value:.2e}"),
        _ if value < 1.0 => format!("{value:.4}"),
        _ if value < 10.0 => format!("{value:.3}"),
        _ if value < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}
