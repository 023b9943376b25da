//! `brindle reliability`: what users ask of it, and get.

use brindle_tests::program::brindle;
use serde_json::Value;

fn ask(flags: &str) -> Value {
    brindle(format!("reliability --json {flags}").split_whitespace()).json()
}

#[track_caller]
fn holds(interval: &Value, figure: f64) {
    let end = |key: &str| interval[key].as_f64().unwrap();
    assert!(end("low") <= figure && figure <= end("high"), "{figure}: {interval}");
}

/// The command of docs/reliability.md.
const ELERATH: &str =
    "--drives 8 --level 5 --class elerath-2007 --repairs 2/12+6 --years 10 --histories 5000";

#[test]
fn a_published_case_is_one_command() {
    let scrubbed = ask(&format!("{ELERATH} --scrub 3/168+6"));
    holds(&scrubbed["losses"], 0.137);
    assert_eq!((&scrubbed["class"]["name"], &scrubbed["bears"]), (&"elerath-2007".into(), &1.into()));
    assert_eq!(scrubbed["failures"], "1.12/461386");
    let never = ask(&format!("{ELERATH} --scrub none"));
    holds(&never["losses"], 1.22);
    assert!(never["scrub"].is_null());
    let text = brindle(format!("reliability {ELERATH} --scrub none").split_whitespace()).ok().text();
    for part in ["any data lost", "NOMDL", "for comparison", "MTTDL", "seed 1"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn one_in_a_thousand_million_has_an_interval_with_the_exact_figure_in_it() {
    let flags =
        "--drives 6 --level raidz2 --afr 0.5 --repairs 8 --defects 0 --years 1 --until-relative-error 0.05";
    let rare = ask(&format!("{flags} --seed 3"));
    let exact = rare["exact"].as_f64().unwrap();
    assert!((1e-12..1e-9).contains(&exact), "{rare}");
    holds(&rare["loss"], exact);
    assert!(rare["histories"].as_u64().unwrap() < 100_000, "{rare}");
    assert!(rare["markov"]["mttdl_hours"].as_f64().unwrap() > 1e12);
    assert_eq!(rare, ask(&format!("{flags} --seed 3 --threads 1")), "the same answer on one core");
    assert_ne!(rare["loss"], ask(&format!("{flags} --seed 4"))["loss"]);
}

#[test]
fn what_makes_no_sense_is_refused_by_the_name_of_its_flag() {
    for (flags, named) in [
        ("--drives 4 --level 5 --failures 0/1000", "--failures"),
        ("--drives 4 --level 5 --failures -1/1000", "--failures"),
        ("--drives 4 --level 5 --repairs NaN/1000", "--repairs"),
        ("--drives 4 --level 5 --repairs 0", "--repairs"),
        ("--drives 4 --level 5 --scrub 3/x", "--scrub"),
        ("--drives 4 --level 5 --delay 1/-4", "--delay"),
        ("--drives 4 --level 5 --defects -1", "--defects"),
        ("--drives 4 --level 5 --defects 7", "--defects"),
        ("--drives 4 --level 5 --wrong-pull 2", "--wrong-pull"),
        ("--drives 4 --level 5 --batch 2:3", "--batch"),
        ("--drives 4 --level 5 --batch 2", "--batch"),
        ("--drives 4 --level 5 --years 0", "--years"),
        ("--drives 4 --level 5 --years NaN", "--years"),
        ("--drives 4 --level 5 --afr 0", "--afr"),
        ("--drives 4 --level 5 --annual-share 100", "--annual-share"),
        ("--drives 4 --level 5 --annual-share 1 --afr 1", "--afr"),
        ("--drives 4 --level 5 --class floppy", "--class"),
        ("--drives 4 --level 7", "--level"),
        ("--drives 5 --level 10", "--level"),
        ("--drives 4 --bears 4", "--bears"),
        ("--drives 1000 --level 5", "--drives"),
        ("--drives 4 --level 5 --groups 0", "--groups"),
        ("--drives 4 --level 5 --size 0", "--size"),
        ("--drives 4 --level 5 --histories 3", "--histories"),
        ("--drives 4 --level 5 --until-relative-error 0", "--until-relative-error"),
        ("--drives 4 --level 5 --confidence 1", "--confidence"),
        ("--drives 4", "--level"),
    ] {
        let words = format!("reliability {flags}");
        let said = brindle(words.split_whitespace()).ended(2).err;
        assert!(said.contains(named), "{flags}: {said}");
    }
}

#[test]
fn classes_are_listed_with_their_sources() {
    let text = brindle(["reliability", "--classes"]).ok().text();
    assert!(
        text.contains("1.36 in 100 drive-years (1.32 to 1.40: 4317 failures") && text.contains("2026"),
        "{text}"
    );
    let all = brindle(["reliability", "--classes", "--json"]).json();
    assert!(
        all.as_array()
            .unwrap()
            .iter()
            .all(|class| class["source"].is_string() && class["defects"].is_number())
    );
}

#[test]
fn a_rate_and_a_share_of_failures_are_told_apart() {
    let number = |reported: &Value, key: &str| reported[key].as_f64().unwrap();
    let rate = ask("--drives 4 --level 5 --afr 50 --histories 256");
    assert!(
        (number(&rate, "afr") - 50.0).abs() < 1e-9 && (number(&rate, "first_year") - 0.3935).abs() < 1e-4
    );
    let share = ask("--drives 4 --level 5 --annual-share 50 --histories 256");
    assert!(
        (number(&share, "first_year") - 0.5).abs() < 1e-9 && (number(&share, "afr") - 69.31).abs() < 0.01
    );
    let worn = "--drives 4 --bears 0 --failures 3/87600 --years 20";
    assert!(ask(&format!("{worn} --histories 256"))["afr"].is_null());
    let text = brindle(format!("reliability {worn} --histories 2048").split_whitespace()).ok().text();
    assert!(
        !text.contains("constant") && text.contains("every failure and every defect is a loss"),
        "{text}"
    );
}
