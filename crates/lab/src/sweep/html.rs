//! The report of a sweep as one page.

use serde::Serialize;

use super::{Figures, Finished, Step};
use crate::page::{Library, Page};

/// Facts about the run, for the page's head.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Title: the arrays and loads that were swept.
    pub title: String,
    /// Names and values: program, kernel, processor, drive.
    pub facts: Vec<(String, String)>,
    /// How each point is run by itself: what stands before its own words.
    pub command: String,
}

/// The most points whose latencies and time series the page has. A page of more points has the figures only, so that
/// a browser can hold it.
const DETAILED: usize = 10_000;

/// Points by columns, so that a million of them is no more than their figures.
#[derive(Serialize)]
struct Columns<'a> {
    command: &'a str,
    axes: Vec<Axis<'a>>,
    figures: Vec<(&'static str, Vec<Option<f64>>)>,
    /// Why points have no figures.
    refused: Vec<(usize, &'a str)>,
    /// Per cent and microseconds of each point; empty where there are too many points.
    percentiles: Vec<&'a [(f64, f64)]>,
    series: Vec<&'a [Step]>,
}

#[derive(Serialize)]
struct Axis<'a> {
    name: &'static str,
    values: Vec<&'a str>,
    /// The index of each point's value.
    of: Vec<usize>,
}

const MARKUP: &str = "<p id=\"best\"></p>\n\
    <div class=\"tools\"><label>Figure<select id=\"figure\"></select></label><label>Over<select id=\"x\"></select></label>\
    <label>Series<select id=\"series\"></select></label><span id=\"held\" class=\"tools\" style=\"margin:0\"></span></div>\n\
    <h2 id=\"title\"></h2>\n<div class=\"chart\" id=\"main\" role=\"group\" aria-labelledby=\"title\"></div>\n\
    <ul class=\"legend\" id=\"names\"></ul><p class=\"read\" id=\"reading\" aria-live=\"polite\"></p><p class=\"note\" id=\"alike\"></p>\n\
    <section id=\"grid\"><h2>All values of it</h2>\n<div class=\"chart\" id=\"heat\"></div></section>\n\
    <section id=\"tails\"><h2>Latency: how long all but a few requests took at most</h2>\n\
    <div class=\"tools\"><label id=\"atname\">At<select id=\"at\"></select></label></div><div class=\"chart\" id=\"latency\"></div></section>\n\
    <section id=\"course\"><h2>Over time</h2>\n<div class=\"tools\"><label id=\"thenname\">At<select id=\"then\"></select></label>\
    <label>Figure<select id=\"over\"></select></label></div>\n<div class=\"chart\" id=\"time\"></div>\
    <p class=\"note\">Whole intervals only: the last one of a run, which is cut short, is left out.</p></section>\n\
    <h2>All points</h2>\n<p class=\"note\">To JBOD: relative to the same load on as many drives without an array. To limit: relative to the \
    fewest operations that the load can cost these drives, were they all busy.</p>\n<div id=\"points\"></div>\n";

/// The report.
pub fn html(environment: &Environment, all: &[Finished]) -> String {
    let mut page = Page::new(&environment.title, &environment.facts);
    page.push(MARKUP);
    page.drawn(Library::Plot, &columns(environment, all), include_str!("report.js"))
}

fn columns<'a>(environment: &'a Environment, all: &'a [Finished]) -> Columns<'a> {
    let figure = |of: fn(&Figures) -> Option<f64>| {
        all.iter().map(|one| one.figures.as_ref().and_then(of)).collect::<Vec<_>>()
    };
    let detailed = if all.len() <= DETAILED { all } else { &[] };
    Columns {
        command: &environment.command,
        axes: axes(all),
        figures: vec![
            ("mb_s", figure(|of| Some(of.mb_s))),
            ("iops", figure(|of| Some(of.iops))),
            ("mean_us", figure(|of| Some(of.mean_us))),
            ("p50_us", figure(|of| Some(of.p50_us))),
            ("p99_us", figure(|of| Some(of.p99_us))),
            ("max_us", figure(|of| Some(of.max_us))),
            ("utilisation", figure(|of| of.utilisation)),
            ("cpu_share", figure(|of| Some(of.cpu_share))),
            ("to_jbod", figure(|of| of.to_jbod)),
            ("to_limit", figure(|of| of.to_limit)),
        ],
        refused: all.iter().enumerate().filter_map(|(at, one)| Some((at, one.refused.as_deref()?))).collect(),
        percentiles: detailed
            .iter()
            .map(|one| one.figures.as_ref().map_or(&[][..], |of| &of.percentiles_us))
            .collect(),
        series: detailed.iter().map(|one| one.figures.as_ref().map_or(&[][..], |of| &of.series)).collect(),
    }
}

/// Each axis, with its values in the order in which they come.
fn axes(all: &[Finished]) -> Vec<Axis<'_>> {
    let Some(first) = all.first() else { return Vec::new() };
    let mut axes: Vec<Axis<'_>> = first
        .point
        .columns()
        .map(|(name, _)| Axis { name, values: Vec::new(), of: Vec::with_capacity(all.len()) })
        .into();
    let mut places = vec![std::collections::HashMap::new(); axes.len()];
    for one in all {
        for ((axis, places), (_, value)) in axes.iter_mut().zip(&mut places).zip(one.point.columns()) {
            let place = *places.entry(value).or_insert(axis.values.len());
            if place == axis.values.len() {
                axis.values.push(value);
            }
            axis.of.push(place);
        }
    }
    axes
}
