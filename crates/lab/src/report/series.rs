//! The course of a run over time: a table, and one page that draws it and needs no other file.

use core::fmt::Write;

use serde::Serialize;

use crate::job::DIRECTIONS;
use crate::measure::Bin;
use crate::page::{Library, Page};
use crate::run::Outcome;

/// One line of a chart: a job's direction.
struct Line {
    job: String,
    direction: &'static str,
    steps: Vec<SeriesStep>,
    /// Seconds of a step.
    step: f64,
    /// How many of the steps had ended when the job did.
    whole: usize,
    /// Seconds of what there is of the first step, where the job ended before it did.
    counted: f64,
}

/// Seconds from the beginning of the run to the step's end; then what [`FIGURES`] says.
type SeriesStep = (f64, [f64; 4]);

/// Title and unit of each chart.
const FIGURES: [(&str, &str); 4] =
    [("Requests", "IOPS"), ("Throughput", "MiB/s"), ("Mean latency", "us"), ("Longest latency", "us")];

/// Points that a page may have: of more, neighbours are joined.
const MOST: usize = 2_000_000;

/// Data for the page's script.
#[derive(Serialize)]
struct Drawn {
    figures: [(&'static str, &'static str); 4],
    lines: Vec<DrawnLine>,
    /// Steps that are one point.
    joined: usize,
}

#[derive(Serialize)]
struct DrawnLine {
    name: String,
    job: String,
    direction: &'static str,
    seconds: Vec<f64>,
    /// Indexed by figure; a latency is nothing where no request ended.
    values: [Vec<Option<f64>>; 4],
}

/// As CSV: a line for each step of each job's directions.
pub fn series_csv(outcomes: &[Outcome]) -> String {
    let mut text = String::from("job,direction,seconds,iops,mb_s,mean_us,max_us\n");
    for line in lines(outcomes) {
        let job = line.job.replace('"', "\"\"");
        for (seconds, [iops, mb_s, mean, max]) in line.steps {
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "\"{job}\",{},{seconds:.3},{iops:.1},{mb_s:.3},{mean:.3},{max:.3}",
                line.direction
            );
        }
    }
    text
}

/// As a page with a chart for each figure.
pub fn series_html(title: &str, facts: &[(String, String)], outcomes: &[Outcome]) -> String {
    let lines = lines(outcomes);
    let all: usize = lines.iter().map(|line| line.steps.len()).sum();
    let joined = all.div_ceil(MOST).max(1);
    let mut page = Page::new(title, facts);
    page.push(
        "<p id=\"summary\"></p>\n<ul class=\"legend\" id=\"names\"></ul><p class=\"read\" id=\"reading\" aria-live=\"polite\"></p>\n\
         <div id=\"charts\"></div>\n<p class=\"note\" id=\"whole\"></p>\n<h2>By line</h2>\n<div id=\"rows\"></div>\n",
    );
    let drawn =
        Drawn { figures: FIGURES, lines: lines.iter().map(|line| line.drawn(joined)).collect(), joined };
    page.drawn(Library::Series, &drawn, include_str!("series.js"))
}

impl Line {
    /// Its whole steps, so many of them as one point: an interval that was cut short is no fall. A job that ended
    /// within its first step has this step only.
    fn drawn(&self, joined: usize) -> DrawnLine {
        let mut line = DrawnLine {
            name: format!("{} {}", self.job, self.direction),
            job: self.job.clone(),
            direction: self.direction,
            seconds: Vec::new(),
            values: Default::default(),
        };
        if self.whole == 0
            && let [(end, [iops, mb_s, mean, worst])] = self.steps.as_slice()
        {
            // As rates of the time that there was.
            let (step, counted) = (self.step, self.counted);
            let share = if counted > 0.0 { step / counted } else { 1.0 };
            line.push(end - step + counted, [iops * share, mb_s * share, *mean, *worst]);
            return line;
        }
        for part in self.steps[..self.whole].chunks(joined) {
            let count = part.len() as f64;
            let sum = |of: fn(&[f64; 4]) -> f64| part.iter().map(|(_, step)| of(step)).sum::<f64>();
            let ios = sum(|step| step[0]);
            let mean = if ios > 0.0 { sum(|step| step[0] * step[2]) / ios } else { 0.0 };
            let worst = part.iter().map(|(_, step)| step[3]).fold(0.0, f64::max);
            let end = part[part.len() - 1].0;
            line.push(end, [ios / count, sum(|step| step[1]) / count, mean, worst]);
        }
        line
    }
}

impl DrawnLine {
    fn push(&mut self, seconds: f64, figures: [f64; 4]) {
        // As text these are a quarter of what all digits are, and no eye sees a difference.
        let short = |value: f64| (value * 1000.0).round() / 1000.0;
        let some = figures[0] > 0.0;
        self.seconds.push(short(seconds));
        for (at, (list, value)) in self.values.iter_mut().zip(figures).enumerate() {
            list.push((at < 2 || some).then(|| short(value)));
        }
    }
}

fn lines(outcomes: &[Outcome]) -> Vec<Line> {
    let of = |outcome: &Outcome| {
        let job = outcome.job.name.clone();
        let began = outcome.began.as_secs_f64() + outcome.job.ramp_time.as_secs_f64();
        DIRECTIONS.map(|of| {
            let series = &outcome.tallies[of.index()].series;
            let step = series.step().as_secs_f64();
            let steps =
                (1..).zip(series.bins()).map(|(n, bin)| (began + step * f64::from(n), figures(bin, step)));
            let steps: Vec<SeriesStep> = steps.collect();
            let counted = outcome.elapsed.saturating_sub(outcome.job.ramp_time).as_secs_f64();
            let whole = ((counted / step + 1e-9) as usize).min(steps.len());
            Line { job: job.clone(), direction: of.name(), steps, step, whole, counted }
        })
    };
    outcomes.iter().flat_map(of).filter(|line| !line.steps.is_empty()).collect()
}

fn figures(bin: &Bin, seconds: f64) -> [f64; 4] {
    let mean = bin.latency as f64 / 1000.0 / bin.ios.max(1) as f64;
    [bin.ios as f64 / seconds, bin.bytes as f64 / 1_048_576.0 / seconds, mean, bin.worst as f64 / 1000.0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_anything_is_a_page() {
        let page = series_html("a <title>", &[], &[]);
        assert!(page.contains("a &lt;title&gt;") && page.contains(r#""lines":[]"#));
        assert_eq!(series_csv(&[]).lines().count(), 1);
    }
}
