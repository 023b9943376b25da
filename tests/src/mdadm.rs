//! mdadm's output about devices and arrays, as tables.

use std::collections::BTreeMap;
use std::ops::Index;
use std::path::Path;
use std::process::Command;

/// The lines `NAME : VALUE` of a report, with the other lines behind them.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// By name, without the white space around.
    pub values: BTreeMap<String, String>,
    /// Lines of another form that are not empty.
    pub rest: Vec<String>,
}

impl Fields {
    /// Takes a report apart; lines end with `separator`.
    pub fn of(text: &str, separator: char) -> Self {
        let mut fields = Self::default();
        for line in text.split(separator).filter(|line| !line.trim().is_empty()) {
            match line.split_once(" : ") {
                Some((name, value)) => {
                    fields.values.insert(name.trim().to_owned(), value.trim().to_owned());
                }
                None => fields.rest.push(line.trim().to_owned()),
            }
        }
        fields
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The number with which that value begins.
    ///
    /// # Panics
    /// If there is none.
    pub fn number(&self, name: &str) -> u64 {
        number(&self[name])
    }
}

impl Index<&str> for Fields {
    type Output = str;

    /// The value of that name.
    fn index(&self, name: &str) -> &str {
        self.get(name).unwrap_or_else(|| panic!("mdadm says nothing of {name}: {self:?}"))
    }
}

/// The number with which a text begins.
///
/// # Panics
/// If it begins with something else.
pub fn number(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("'{text}' begins with no number"))
}

/// `mdadm --examine`, in UTC.
///
/// # Panics
/// If mdadm can't be run or fails.
pub fn examine(mdadm: &Path, member: &Path) -> Fields {
    Fields::of(&say(mdadm, &["--examine"], member), '\n')
}

/// `mdadm --examine --export`.
///
/// # Panics
/// If mdadm can't be run or fails.
pub fn examine_export(mdadm: &Path, member: &Path) -> BTreeMap<String, String> {
    exported(&say(mdadm, &["--examine", "--export"], member), '\n')
}

/// Lines `NAME=VALUE`.
pub fn exported(text: &str, separator: char) -> BTreeMap<String, String> {
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.split(separator).filter_map(pair).collect()
}

fn say(mdadm: &Path, options: &[&str], member: &Path) -> String {
    let mut command = Command::new(mdadm);
    command.env("TZ", "UTC").args(options).arg(member);
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Seconds since 1970 of a moment as mdadm shows it in UTC: `Sat Nov 21 23:59:59 2026`.
///
/// # Panics
/// If it has another form.
pub fn moment(text: &str) -> u64 {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, year] = words[..] else { panic!("'{text}' is no moment") };
    let month = MONTHS.find(month).expect("a month") / 3;
    let (year, day) = (number(year), number(day));
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = years + lengths[..month].iter().sum::<u64>() + day - 1;
    days * 86_400 + time.split(':').map(number).fold(0, |sum, part| sum * 60 + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_taken_apart() {
        let fields = Fields::of("  Events : 2|  Name : a:b  (local)|| 0  0  8 active|", '|');
        assert_eq!((fields.number("Events"), &fields["Name"]), (2, "a:b  (local)"));
        assert_eq!(fields.rest, ["0  0  8 active"]);
        assert_eq!(exported("A=1\nB=2=3\n", '\n')["B"], "2=3");
    }

    #[test]
    fn moments_are_read() {
        assert_eq!(moment("Thu Jan  1 00:00:00 1970"), 0);
        assert_eq!(moment("Sat Nov 21 23:59:37 2026"), 1_795_305_577);
        assert_eq!(moment("Tue Feb 29 12:00:01 2000"), 951_825_601);
    }
}
