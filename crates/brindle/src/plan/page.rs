//! A plan as one page that needs nothing else.

use core::fmt::Write;

use brindle_lab::sweep::{escaped, head};

use super::columns::HEADS;
use super::report::{cells, wanted};
use super::{Answer, words};

/// A click on a head sorts by its column; who runs no scripts has the table as it is.
const SCRIPT: &str = "document.querySelectorAll('#plan th').forEach((head,column)=>head.addEventListener('click',()=>{\
    const body=document.querySelector('#plan tbody'),value=row=>{const text=row.children[column].textContent,parts=text.split('/');\
    const number=parts.length==2?parts[0]/parts[1]:parseFloat(text);return isNaN(number)?text:number};\
    const down=head.dataset.down=head.dataset.down=='1'?'0':'1';\
    [...body.rows].sort((a,b)=>{a=value(a);b=value(b);return(a<b?-1:a>b?1:0)*(down=='1'?-1:1)}).forEach(row=>body.append(row))}))";

/// The page.
pub(super) fn html(answer: &Answer<'_>) -> String {
    let mut facts: Vec<(String, String)> = vec![
        ("program".to_owned(), format!("brindle {}", env!("CARGO_PKG_VERSION"))),
        ("drives".to_owned(), super::report::kinds_text(answer.kinds)),
    ];
    if let Some(asked) = answer.asked {
        facts.push(("load".to_owned(), asked.file.clone()));
    }
    if !answer.needs.is_empty() {
        let needs: Vec<String> = answer.needs.iter().map(ToString::to_string).collect();
        facts.push(("needs".to_owned(), needs.join(" ")));
    }
    facts.extend(answer.notes.iter().map(|note| ("note".to_owned(), note.clone())));
    let mut page = head("Which array", &facts);
    if let Some(taken) = &answer.taken {
        let _ = write!(page, "<h2>Recommended</h2>\n<p>{}.</p>\n<pre>", escaped(&taken.why));
        taken.commands.iter().for_each(|command| {
            let _ = writeln!(page, "{}", escaped(command));
        });
        page.push_str("</pre>\n");
    }
    page.push_str("<h2>All that meet the needs</h2>\n");
    if let Some(more) = words::more(answer) {
        let _ = writeln!(page, "<p>{}</p>", escaped(&more));
    }
    table(&mut page, answer);
    let _ = writeln!(page, "<script>{SCRIPT}</script></body></html>");
    page
}

fn table(page: &mut String, answer: &Answer<'_>) {
    let rows: Vec<Vec<String>> = answer.rows.iter().map(|row| cells(&row.figures)).collect();
    let wanted = wanted(&rows);
    page.push_str("<table id=\"plan\"><thead><tr>");
    for ((above, below), _) in HEADS.iter().zip(&wanted).filter(|(_, wanted)| **wanted) {
        let _ = write!(page, "<th>{above} {below}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (place, row) in rows.iter().enumerate() {
        let taken = answer.taken.as_ref().is_some_and(|taken| taken.place == place);
        page.push_str(if taken { "<tr style=\"font-weight:bold\">" } else { "<tr>" });
        for (cell, _) in row.iter().zip(&wanted).filter(|(_, wanted)| **wanted) {
            let _ = write!(page, "<td>{}</td>", escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table>\n");
}
