//! A plan as one page that needs nothing else.

use core::fmt::Write;

use brindle_lab::page::{Library, Page, escaped};
use serde_json::{Value, json};

use super::Answer;
use super::columns::{HEADS, columns};
use super::report::{cells, reasons, wanted};
use super::words;

/// The page.
pub(super) fn html(answer: &Answer<'_>) -> String {
    let mut page = Page::new("Which array", &facts(answer));
    recommended(&mut page, answer);
    page.push(
        "<h2 id=\"title\">All that meet the needs</h2>\n<div class=\"tools\"><label>Up<select id=\"y\"></select></label>\
         <label>Right<select id=\"x\"></select></label></div>\n\
         <div class=\"chart\" id=\"main\" role=\"group\" aria-labelledby=\"title\"></div><ul class=\"legend\" id=\"names\"></ul>\
         <p class=\"read\" id=\"reading\" aria-live=\"polite\"></p>\n\
         <section id=\"chunks\"><h2>Chunk</h2>\n<div class=\"chart\" id=\"chunk\"></div></section>\n\
         <h2>As a table</h2>\n",
    );
    if let Some(more) = words::more(answer) {
        page.push(&format!("<p>{}</p>\n", escaped(&more)));
    }
    page.push("<div id=\"rows\"></div>\n");
    let rows: Vec<Vec<String>> = answer.rows.iter().map(|row| cells(&row.figures)).collect();
    let wanted = wanted(&rows);
    let meanings = columns(&wanted);
    if !meanings.is_empty() {
        page.push("<details><summary>Columns</summary><dl>\n");
        for (name, means) in meanings {
            page.push(&format!("<dt>{}</dt><dd>{}</dd>\n", escaped(&name), escaped(means)));
        }
        page.push("</dl></details>\n");
    }
    page.drawn(Library::Plot, &data(answer, &rows, &wanted), include_str!("page.js"))
}

fn facts(answer: &Answer<'_>) -> Vec<(String, String)> {
    let mut facts = vec![
        ("program".to_owned(), format!("brindle {}", env!("CARGO_PKG_VERSION"))),
        ("drives".to_owned(), super::report::kinds_text(answer.kinds)),
    ];
    if !answer.needs.is_empty() {
        let needs: Vec<String> = answer.needs.iter().map(ToString::to_string).collect();
        facts.push(("needs".to_owned(), needs.join(" ")));
    }
    facts.extend(answer.notes.iter().map(|note| ("note".to_owned(), note.clone())));
    facts
}

/// Adds the lines of the text report to the page.
fn recommended(page: &mut Page, answer: &Answer<'_>) {
    let mut lines: Vec<String> = vec![super::report::kinds_text(answer.kinds) + "."];
    lines.extend(answer.asked.map(|asked| {
        let load = &asked.load;
        format!(
            "Load {}: {:.0} % reads, {}, {} in flight.",
            asked.file,
            load.reads * 100.0,
            if load.random { "at random places" } else { "in order" },
            load.depth
        )
    }));
    let Some(taken) = &answer.taken else {
        lines.push("Nothing is recommended: Brindle can make none of these.".to_owned());
        lines.iter().for_each(|line| page.push(&format!("<p>{}</p>\n", escaped(line))));
        return;
    };
    let of = &answer.rows[taken.place].figures;
    page.push(&format!("<h2>Recommended: {} {}</h2>\n", escaped(&of.level), escaped(&of.config)));
    lines.splice(0..0, reasons(answer, taken));
    lines.iter().for_each(|line| page.push(&format!("<p>{}</p>\n", escaped(line))));
    let mut commands = String::new();
    for command in &taken.commands {
        // No word of it is broken, which a copied line would not tell.
        let words = command.split(' ').map(|word| format!("<span class=\"word\">{}</span>", escaped(word)));
        let _ = writeln!(commands, "{}", words.collect::<Vec<_>>().join(" "));
    }
    page.push(&format!("<pre>{commands}</pre>\n"));
}

fn data(answer: &Answer<'_>, rows: &[Vec<String>], wanted: &[bool]) -> Value {
    let mut all = super::report::json(answer);
    let heads: Vec<Value> = HEADS
        .iter()
        .zip(wanted)
        .enumerate()
        .filter(|(_, (_, wanted))| **wanted)
        .map(|(at, ((above, below), _))| {
            let cells: Vec<&String> = rows.iter().map(|row| &row[at]).collect();
            json!({"name": super::columns::name((*above, *below)), "cells": cells, "word": matches!(at, 1 | 2)})
        })
        .collect();
    all["columns"] = Value::Array(heads);
    all
}
