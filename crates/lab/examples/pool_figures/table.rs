//! Lines of tables: a figure, its limit, and whether it keeps to that.

/// Prints the head of a table of figures.
pub(crate) fn head(title: &str) {
    println!("\n## {title}\n\n| what | to reach | measured | | what limits it |\n|---|---:|---:|---|---|");
}

/// A limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    Least(f64),
    Most(f64),
}

impl Limit {
    fn is_kept(self, figure: f64) -> bool {
        match self {
            Self::Least(least) => figure >= least,
            Self::Most(most) => figure <= most,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::Least(least) => format!("at least {least}{unit}"),
            Self::Most(most) => format!("at most {most}{unit}"),
        }
    }
}

/// Prints a line.
pub(crate) fn line(what: &str, limit: Limit, figure: f64, unit: &str, why: &str) {
    let verdict = if limit.is_kept(figure) { "reached" } else { "**missed**" };
    println!("| {what} | {} | {figure:.2}{unit} | {verdict} | {why} |", limit.text(unit));
}
