//! Sweeps: which points there are, what suites hold, and that a report needs nothing but itself.

use brindle_lab::predict::job;
use brindle_lab::suite::{SUITES, Suite, suite};
use brindle_lab::sweep::{Axes, Environment, Figures, Finished, csv, html};

fn list(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

#[test]
fn points_are_the_cross_product_each_once() {
    let axes = Axes {
        level: list("0 10"),
        rw: list("randread randrw"),
        rwmixread: list("0 50 100"),
        ..Axes::default()
    };
    let points = axes.points();
    // A share of reads is nothing to pure reads.
    assert_eq!(points.len(), 2 * (1 + 3));
    assert_eq!(points[1].words()[..3], [("rw", "randrw"), ("bs", "4k"), ("rwmixread", "0")]);
    let own = Axes { bs: list("8k"), ..Axes::default() };
    let base = Axes { bs: list("4k 16k"), level: list("6"), ..Axes::default() };
    let both = base.under(own).points();
    assert_eq!(both.iter().map(|point| (&*point.bs, &*point.level)).collect::<Vec<_>>(), [("8k", "6")]);
}

#[test]
fn suites_are_loads_that_can_be_run() {
    for (name, text) in SUITES {
        let suite = suite(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!suite.about().is_empty(), "{name}");
        let Suite::Axes(axes) = suite else { continue };
        for point in axes.points() {
            let job = job(&point.words()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(job.iodepth.to_string(), point.iodepth);
        }
    }
    let points = |name: &str| {
        let text = SUITES.iter().find(|(own, _)| *own == name).expect("it ships").1;
        suite(name, text).expect("a suite").axes().expect("axes").points().len()
    };
    assert_eq!((points("mix-matrix"), points("chunk-table"), points("fileserver")), (56, 256, 5));
    let error = suite("own.toml", "about = \"\"\ndepth = [\"1\"]\n").expect_err("no such axis");
    assert!(error.to_string().starts_with("own.toml:2: "), "{error}");
}

#[test]
fn a_report_is_one_page_that_escapes_what_it_is_told() {
    let point = Axes { rw: list("</script><b>"), ..Axes::default() }.points().remove(0);
    let figures = Figures {
        mb_s: 1.5,
        iops: 384.0,
        mean_us: 1.0,
        p50_us: 1.0,
        p99_us: 2.0,
        max_us: 3.0,
        utilisation: Some(0.5),
        cpu_share: 0.1,
        to_jbod: None,
        to_limit: Some(0.75),
        percentiles_us: vec![(50.0, 1.0), (99.0, 2.0)],
        series: Vec::new(),
        digest: "00".to_owned(),
    };
    let fine = Finished { point: point.clone(), figures: Some(figures), refused: None };
    let refused = Finished { point, figures: None, refused: Some("a \"reason\", in words".to_owned()) };
    let all = [fine, refused];
    let facts = vec![("drive".to_owned(), "a<b".to_owned())];
    let page =
        html(&Environment { title: "T".to_owned(), facts, command: "brindle simulate".to_owned() }, &all);
    assert_eq!(page.matches("</script>").count(), 4, "no data ends the element that holds it");
    assert!(page.contains("a&lt;b") && !page.contains("<b>") && page.contains("default-src 'none'"));
    for notice in ["Observable Plot 0.6.17", "D3 7.9.0", "THE SOFTWARE IS PROVIDED"] {
        assert!(page.contains(notice), "the licence asks for it: {notice}");
    }
    let text = csv(&all);
    let columns = text.lines().next().expect("a header").split(',').count();
    assert_eq!(text.lines().nth(1).expect("a row").split(',').count(), columns);
    assert!(text.ends_with("\"a 'reason', in words\"\n"), "{text}");
}
