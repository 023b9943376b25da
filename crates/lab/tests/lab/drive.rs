//! Models of drives: what is read, what is refused and where, and what a fit makes of a table.

use brindle_lab::drive::{Drive, DriveErrorKind, Port, SHIPPED, Table, fit, parse, shipped, table, to_toml};
use brindle_lab::predict::{alone, compare, job};

use crate::made::published::{evo850, p3700};

const EVO: &str = include_str!("../../reference/evo850-single.csv");

fn evo_table() -> Table {
    table("evo850-single.csv", EVO).expect("a table")
}

#[test]
fn models_that_ship_are_read_and_written_as_they_are() {
    for (name, text) in SHIPPED {
        let drive = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(drive.name, name);
        let again = parse(name, &to_toml(&drive)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again, drive);
    }
    assert_eq!(shipped("evo850"), Some(SHIPPED[0].1));
    assert_eq!(shipped("evo"), None);
}

/// docs/drive-models.md tells what was published of drives of today: each model does that in the simulator.
#[test]
fn models_of_drives_of_today_do_what_was_published_of_them() {
    let document = include_str!("../../../../docs/drive-models.md");
    let (_, table) = document.split_once("## Drives of today").expect("the section");
    let rows =
        table.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with("| `"));
    let mut models = 0;
    for row in rows {
        let fields: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = fields[1].trim_matches('`');
        let model = parse(name, shipped(name).unwrap_or_else(|| panic!("{name}"))).expect("a model");
        let asked = [
            ("randread", "4k", "512"),
            ("randwrite", "4k", "512"),
            ("read", "1m", "8"),
            ("write", "1m", "8"),
        ];
        for ((rw, bs, depth), wanted) in asked.into_iter().zip(&fields[3..7]) {
            let Ok(wanted) = wanted.parse::<f64>() else { continue };
            let job = job(&[("rw", rw), ("bs", bs), ("iodepth", depth)]).expect("a job");
            let all = alone(&model, job).expect("it runs").outcome.mixed();
            let does = if bs == "4k" { all.iops() } else { all.bandwidth() / 1e6 };
            assert!((does / wanted - 1.0).abs() < 0.03, "{name}, {rw}: {does} of {wanted}");
        }
        assert!(
            fields[7].contains("](https://") && fields[7].ends_with(|c: char| c.is_ascii_digit()),
            "{row}"
        );
        models += 1;
    }
    assert_eq!(models, 5);
}

/// The fitted ones that ship are what the fit makes of the tables beside them, by one procedure.
#[test]
fn models_of_measured_drives_are_the_fits() {
    for fitted in [evo850(), p3700()] {
        let drive = fitted.drive;
        let text = shipped(&drive.name).expect("it ships");
        assert!(
            parse("shipped", text).is_ok_and(|ships| same(&ships, &drive)),
            "{}:\n{}",
            drive.name,
            to_toml(&drive)
        );
    }
}

fn same(one: &Drive, other: &Drive) -> bool {
    to_toml(one) == to_toml(other)
}

#[test]
fn a_disturbed_row_is_named_and_not_fitted() {
    let left_out: Vec<_> = evo850().left_out.into_iter().map(|(_, line, _)| line).collect();
    let outlier = EVO.lines().position(|line| line == "randwrite,16,243").expect("the row") + 1;
    assert_eq!(left_out, [outlier]);
    let compared = compare(&evo850().drive, &evo_table().rows).expect("a comparison");
    for row in compared {
        let most = if row.row.line == outlier { 20.0 } else { 1.5 };
        assert!(row.error().abs() < most, "{row:?}");
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_line() {
    let (_, evo) = SHIPPED[0];
    let changed = |from: &str, to: &str| {
        assert!(evo.contains(from), "{from}");
        let error = parse("m.toml", &evo.replacen(from, to, 1)).expect_err("it is wrong");
        let line = evo[..evo.find(from).expect("there")].matches('\n').count() + 1;
        (error.to_string(), line)
    };
    for (from, to, wanted) in [
        ("units = 32", "units = 0", "units must be from 1 to 65536"),
        ("units = 32", "unit = 32", "unit"),
        ("flush_us = 1000.0", "flush_us = -1", "flush_us must be from 0"),
        ("flush_us = 1000.0", "flush_us = nan", "flush_us must be from 0"),
        ("flush_us = 1000.0", "flush_us = [", ""),
        ("spread_percent = 20", "spread_percent = 29", "spread_percent must be from 0 to 28"),
        ("occupancy_us = [[0", "occupancy_us = [[9999999", "occupancy_us must be pairs"),
        ("latency_us = [[", "latency_us = [] # [[", "latency_us must be pairs"),
    ] {
        let (error, line) = changed(from, to);
        assert!(error.starts_with("m.toml:") && error.contains(wanted), "{to}: {error}");
        let reported: usize = error.split(':').nth(1).and_then(|line| line.parse().ok()).expect("a line");
        // An unclosed list is noticed only where the next item begins.
        assert!(
            if to.ends_with("= [") { reported > line } else { reported == line },
            "{to}: {error}, not {line}"
        );
    }
    let huge = " ".repeat(2 << 20);
    assert_eq!(parse("m", &huge).expect_err("huge").kind, DriveErrorKind::TooLong(1 << 20));
}

#[test]
fn tables_that_make_no_sense_are_refused() {
    let line = |text: &str| {
        let error = table("t.csv", text).expect_err("it is wrong");
        assert!(error.to_string().starts_with("t.csv"), "{error}");
        (error.line, error.kind)
    };
    assert_eq!(line(""), (0, DriveErrorKind::Header));
    assert_eq!(line("# a\nbs,r0,r101\n"), (2, DriveErrorKind::Header));
    assert_eq!(line("bs,r0,r100\n4k,1\n"), (2, DriveErrorKind::Columns { found: 2, wanted: 3 }));
    for wrong in ["4q,1,1", "0k,1,1", "2g,1,1", "4k,-1,1", "4k,nan,1", "4k,1,inf", "4k,1,"] {
        assert!(matches!(line(&format!("bs,r0,r100\n{wrong}\n")), (2, DriveErrorKind::Cell(..))), "{wrong}");
    }
    assert!(matches!(line("pattern,bs_kib,mb_s\nsideways,4,1\n"), (2, DriveErrorKind::Cell(..))));
    assert!(matches!(line("stat,bs,r0\nmin,4k,1\n"), (2, DriveErrorKind::Cell(..))));
    let reads = table("t.csv", "pattern,bs_kib,mb_s\nrandread,4,100\n").expect("a table");
    assert!(matches!(fit("t", 1 << 30, &[reads]).expect_err("no writes").kind, DriveErrorKind::Lacks(_)));
}

#[test]
fn a_port_that_no_row_tells_is_a_guess_and_is_called_one() {
    let of = |rows: &str| {
        let table = table("t.csv", &format!("pattern,bs_kib,mb_s\n{rows}")).expect("a table");
        fit("t", 1 << 40, &[table]).expect("a fit")
    };
    // 68.8 K writes of 4K a second, of an NVMe drive: nothing tells of a link that drives share.
    let small = of("randread,4,86.8\nrandwrite,4,268.8\n");
    assert_eq!(small.drive.stations.uplink, 0);
    assert!(
        small.guesses[0].contains("no row is of more than 4 KiB") && small.guesses[0].contains("--port nvme"),
        "{small:?}"
    );
    let large = of("randread,4,30\nrandwrite,4,80\nread,1024,530\nwrite,1024,500\n");
    assert_eq!(large.drive.stations.uplink, brindle_lab::drive::constants::SATA_UPLINK);
    assert!(
        large.guesses[0].contains("taken for a SATA drive")
            && large.guesses[0].contains("uplink_mb_s = 1780"),
        "{large:?}"
    );
    let fast = of("randread,4,80\nrandwrite,4,250\nread,1024,3000\nwrite,1024,2000\n");
    assert!(fast.guesses[0].contains("taken for an NVMe drive"), "{fast:?}");
    assert_eq!([&small, &large, &fast].map(|one| one.guesses.len()), [1; 3]);
    // A port that is said is none.
    let (sata, nvme) = (fast.clone().on_port(Port::Sata), large.clone().on_port(Port::Nvme));
    assert!(sata.guesses.is_empty() && nvme.guesses.is_empty());
    assert_eq!(sata.drive.stations.uplink, large.drive.stations.uplink);
    assert_eq!((nvme.drive.stations.units, nvme.drive.stations.flush), (1024, fast.drive.stations.flush));
    let desktop = large.on_port(Port::NvmeConsumer).drive.stations;
    assert_eq!((desktop.volatile_cache, desktop.flush, desktop.uplink), (true, 2_850_000, 0));
    // A disk: 4K in 8 ms.
    let disk = of("randread,4,0.5\nrandwrite,4,0.6\nread,1024,200\nwrite,1024,200\n");
    assert!(disk.guesses[1].contains("no head is fitted"), "{disk:?}");
    assert!(disk.on_port(Port::Sata).guesses[0].contains("no head is fitted"));
}

/// A modelled drive, measured as a real one is: what is fitted to that is the drive.
#[test]
fn what_is_measured_of_a_model_gives_the_model_back() {
    let drive = brindle_lab::drive::parse("p3700", brindle_lab::drive::shipped("p3700").unwrap()).unwrap();
    let measured = |writes| {
        let jobs = brindle_lab::drive::probes(writes, core::time::Duration::from_millis(100));
        let outcome = |job| brindle_lab::predict::alone(&drive, job).unwrap().outcome;
        brindle_lab::drive::tables("sim", &jobs.into_iter().map(outcome).collect::<Vec<_>>()).unwrap()
    };
    let tables = measured(true);
    assert_eq!(tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [15, 15]);
    let fitted = brindle_lab::drive::fit("again", drive.size, &tables).unwrap();
    let rows: Vec<_> = tables.iter().flat_map(|table| table.rows.clone()).collect();
    let compared = brindle_lab::predict::compare(&fitted.drive, &rows).unwrap();
    let error = compared.iter().map(|row| row.error().abs()).sum::<f64>() / compared.len() as f64;
    assert!(error < 5.0, "{error}: {compared:?}");
    let reads = measured(false);
    assert_eq!(reads.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [5, 5]);
    assert!(brindle_lab::drive::fit("reads", drive.size, &reads).is_err(), "nothing was written");
    let fitted = brindle_lab::drive::fit_reads("reads", drive.size, &reads).unwrap();
    assert_eq!(fitted.drive.stations.read, fitted.drive.stations.write);
    assert!(fitted.drive.source.contains("Writes were not measured"));
}

#[test]
fn a_table_says_nothing_twice() {
    let twice = "pattern,bs_kib,mb_s\nrandread,8,60\nread,8,60\nrandread,8,70\n";
    let error = table("t.csv", twice).expect_err("two figures");
    assert_eq!(
        error.to_string(),
        "t.csv:4: the same was measured in line 2: a table has one figure for each"
    );
    assert!(table("t.csv", "bs,r0,r0\n4k,1,2\n").is_err());
    assert!(table("t.csv", "stat,bs,r0\navg,4k,1\nmax,4k,2\n").is_ok());
}
