//! The course of a run over time: a table, and one page that draws it and needs no other file.

use core::fmt::Write;

use crate::job::DIRECTIONS;
use crate::measure::Bin;
use crate::run::Outcome;
use crate::sweep::{escaped, head};

/// One line of a chart: a job's direction.
struct Line {
    job: String,
    direction: &'static str,
    steps: Vec<Step>,
}

/// Seconds from the beginning of the run to the step's end; then what [`FIGURES`] says.
type Step = (f64, [f64; 4]);

const FIGURES: [&str; 4] = ["IOPS", "MiB/s", "mean latency, us", "maximum latency, us"];
const COLOURS: [&str; 8] =
    ["#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#148f77", "#566573", "#d35400"];
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 230.0;
/// Where the lines are drawn: left, right, top, bottom.
const FRAME: [f64; 4] = [80.0, 700.0, 15.0, 200.0];

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

/// As a page with a chart for each figure, drawn without any script.
pub fn series_html(title: &str, facts: &[(String, String)], outcomes: &[Outcome]) -> String {
    let lines = lines(outcomes);
    let mut page = head(title, facts);
    if lines.is_empty() {
        page.push_str("<p>Nothing was done.</p>\n");
        return page + "</body></html>\n";
    }
    for (at, name) in FIGURES.iter().enumerate() {
        let _ = writeln!(page, "<h2>{name}</h2>");
        chart(&mut page, &lines, at);
    }
    page.push_str("</body></html>\n");
    page
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
            Line { job: job.clone(), direction: of.name(), steps: steps.collect() }
        })
    };
    outcomes.iter().flat_map(of).filter(|line| !line.steps.is_empty()).collect()
}

fn figures(bin: &Bin, seconds: f64) -> [f64; 4] {
    let mean = bin.latency as f64 / 1000.0 / bin.ios.max(1) as f64;
    [bin.ios as f64 / seconds, bin.bytes as f64 / 1_048_576.0 / seconds, mean, bin.worst as f64 / 1000.0]
}

fn chart(page: &mut String, lines: &[Line], figure: usize) {
    let [left, right, top, bottom] = FRAME;
    let all = || lines.iter().flat_map(|line| &line.steps);
    let most = all().map(|step| step.1[figure]).fold(1e-9, f64::max);
    let (first, last) =
        all().fold((f64::MAX, 0.0), |(first, last), step| (step.0.min(first), step.0.max(last)));
    let across = |seconds: f64| left + (seconds - first) / (last - first).max(1e-9) * (right - left);
    let up = |value: f64| bottom - value / most * (bottom - top);
    let _ = writeln!(page, "<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">");
    for n in 0..=4 {
        let share = f64::from(n) / 4.0;
        let (value, y, seconds) = (most * share, up(most * share), first + (last - first) * share);
        let _ = writeln!(
            page,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.*}</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{seconds:.1} s</text>",
            left - 6.0,
            y + 4.0,
            usize::from(most < 100.0) * 2,
            across(seconds),
            bottom + 20.0
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let point = |step: &Step| format!("{:.1},{:.1}", across(step.0), up(step.1[figure]));
        let points = line.steps.iter().map(point).collect::<Vec<_>>().join(" ");
        let name = escaped(&format!("{} {}", line.job, line.direction));
        let _ = writeln!(
            page,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"><title>{name}</title></polyline>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>",
            right + 10.0,
            top + 10.0 + 16.0 * number as f64
        );
    }
    page.push_str("</svg>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_anything_is_a_page() {
        let page = series_html("a <title>", &[], &[]);
        assert!(page.contains("a &lt;title&gt;") && !page.contains("NaN") && !page.contains("inf"), "{page}");
        assert_eq!(series_csv(&[]).lines().count(), 1);
    }
}
