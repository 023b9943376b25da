//! Plans as CSV.

use core::fmt::Write;

use brindle_layout::Raid10Layout;

use crate::configuration::{Configuration, Scheme, pairs};
use crate::figures::Figures;

/// Whether a configuration is of the kinds that published tables compare: RAID-Z1 and Z2 of all drives, a stripe of pairs, and
/// stripes of RAID-Z1, with two data drives at least in each vdev.
pub fn is_of_the_table(configuration: &Configuration) -> bool {
    let [part] = configuration.parts.as_slice() else { return false };
    match part.scheme {
        Scheme::RaidZ(1) => true,
        Scheme::RaidZ(2) => part.groups == 1,
        Scheme::Raid10(layout) => layout == Raid10Layout::near(2) && pairs(layout, part.width).is_some(),
        _ => false,
    }
}

/// The columns of such a table: random IOPS are those of writes, loss is a fraction of all double failures.
pub fn published(all: &[&Figures]) -> String {
    let mut text = String::from("disks,level,config,net_tb,random_iops,loss_on_double_failure\n");
    for one in all {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{}",
            one.disks,
            one.level,
            one.config,
            short(one.net as f64 / 1e12, 3),
            short(one.speed.write_iops, 0),
            or_nothing(one.double.as_ref())
        );
    }
    text
}

/// All that is known of each: the columns above, and after them the others.
pub fn all_columns(all: &[&Figures], recommended: Option<usize>) -> String {
    let mut text = String::from(
        "disks,level,config,net_tb,random_iops,loss_on_double_failure,allocated_tb,random_read_iops,workload_iops,\
         seq_read_mb_s,seq_write_mb_s,tolerates,loss_on_triple_failure,loss_on_third_failure,rebuild_hours,price,price_per_tb,\
         loss_probability,loss_probability_low,loss_probability_high,bytes_lost_per_year,nomdl,recommended,\
         formula_random_iops,formula_random_read_iops,formula_workload_iops,formula_seq_read_mb_s,formula_seq_write_mb_s,cores\n",
    );
    for (place, one) in all.iter().enumerate() {
        let plain = published(&[*one]);
        let first = plain.lines().nth(1).unwrap_or_default();
        let figure = |value: Option<f64>, unit: f64, places: usize| {
            value.map_or_else(String::new, |value| short(value / unit, places))
        };
        let cells = [
            figure(one.allocated.map(|bytes| bytes as f64), 1e12, 3),
            short(one.speed.read_iops, 0),
            figure(one.speed.load_iops, 1.0, 0),
            figure(one.speed.read_rate, 1e6, 0),
            figure(one.speed.write_rate, 1e6, 0),
            one.tolerance.to_string(),
            or_nothing(one.triple.as_ref()),
            or_nothing(one.third.as_ref()),
            figure(one.rebuild, 3600.0, 2),
            figure(one.price, 1.0, 2),
            figure(one.price_per_tb(), 1.0, 2),
            tiny(one.risk.map(|risk| risk.loss.value)),
            tiny(one.risk.map(|risk| risk.loss.low)),
            tiny(one.risk.map(|risk| risk.loss.high)),
            tiny(one.risk.map(|risk| risk.bytes_per_year.value)),
            tiny(one.risk.map(|risk| risk.nomdl.value)),
            u32::from(recommended == Some(place)).to_string(),
            figure(one.formulas.map(|speed| speed.write_iops), 1.0, 0),
            figure(one.formulas.map(|speed| speed.read_iops), 1.0, 0),
            figure(one.formulas.and_then(|speed| speed.load_iops), 1.0, 0),
            figure(one.formulas.and_then(|speed| speed.read_rate), 1e6, 0),
            figure(one.formulas.and_then(|speed| speed.write_rate), 1e6, 0),
            or_nothing(one.cores.as_ref()),
        ];
        let _ = writeln!(text, "{first},{}", cells.join(","));
    }
    text
}

/// Three digits, however small.
fn tiny(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2e}"))
}

fn or_nothing(value: Option<&impl core::fmt::Display>) -> String {
    value.map_or_else(String::new, ToString::to_string)
}

/// A number with at most `places` decimals, unless it is too small for them.
fn short(value: f64, places: usize) -> String {
    if value > 0.0 && value < 0.5 / 10_f64.powi(places as i32) {
        return tiny(Some(value));
    }
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::configurations;
    use crate::figures::{Terms, figures};
    use crate::testing::set;

    fn of(drives: u32) -> String {
        let all = configurations(&[set(drives)]);
        let all = all.iter().filter(|one| is_of_the_table(one)).map(|one| figures(one, &Terms::default()));
        published(&all.collect::<Vec<_>>().iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_published_table_comes_out_exactly() {
        let head = "disks,level,config,net_tb,random_iops,loss_on_double_failure\n";
        let four = "4,raidz,3+1,6,200,1\n4,raidz2,2+2,4,200,0\n4,raid10,2x(1+1),4,400,1/3\n";
        let six = "6,raidz,5+1,10,200,1\n6,raidz2,4+2,8,200,0\n6,raid10,3x(1+1),6,600,1/5\n\
                   6,raidz10,2x(2+1),8,400,2/5\n";
        assert_eq!((of(4), of(6)), (format!("{head}{four}"), format!("{head}{six}")));
    }

    #[test]
    fn other_numbers_of_drives_go_by_the_same_rules() {
        let rows = |drives| of(drives).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(rows(2), ["2,raid10,1x(1+1),2,200,1"]);
        assert_eq!(rows(3), ["3,raidz,2+1,4,200,1"]);
        assert_eq!(rows(5), ["5,raidz,4+1,8,200,1", "5,raidz2,3+2,6,200,0"]);
        assert_eq!(rows(8)[2..], ["8,raid10,4x(1+1),8,800,1/7", "8,raidz10,2x(3+1),12,400,3/7"]);
        assert_eq!(rows(9)[2..], ["9,raidz10,3x(2+1),12,600,1/4"]);
        assert_eq!(
            rows(12)[3..],
            [
                "12,raidz10,2x(5+1),20,400,5/11",
                "12,raidz10,3x(3+1),18,600,3/11",
                "12,raidz10,4x(2+1),16,800,2/11"
            ]
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (short(6.0, 3), short(1.92, 3), short(200.0, 0), short(0.1234, 3)),
            ("6".into(), "1.92".into(), "200".into(), "0.123".into())
        );
        // Drives of a MB hold little, and not nothing.
        assert_eq!((short(3e-6, 3), short(0.0, 3)), ("3.00e-6".into(), "0".into()));
    }
}
