//! Files of others that draw (`vendor/README.md`).

/// The licences of the libraries.
pub(super) const LICENSES: &str = include_str!("../../vendor/LICENSES.txt");

/// A library that draws charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Observable Plot, with D3: few marks of any kind.
    Plot,
    /// uPlot: lines of a million points over time.
    Series,
}

impl Library {
    /// As elements of a page.
    pub(super) fn write(self, page: &mut String) {
        let scripts: &[&str] = match self {
            Self::Plot => {
                &[include_str!("../../vendor/d3.min.js"), include_str!("../../vendor/plot.umd.min.js")]
            }
            Self::Series => {
                page.push_str("<style>\n");
                page.push_str(include_str!("../../vendor/uPlot.min.css"));
                page.push_str("</style>\n");
                &[include_str!("../../vendor/uPlot.iife.min.js")]
            }
        };
        for script in scripts {
            page.push_str("<script>\n");
            page.push_str(script);
            page.push_str("</script>\n");
        }
    }
}
