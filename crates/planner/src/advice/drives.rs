//! Settings of the members' drives.

use super::facts::{Drive, Facts, Md};
use super::finding::Finding;
use super::loss_risk::{LossRisk, percent};
use super::simulator::{NO_MODEL, Simulator, Under, compared, load};
use crate::reliability::HOURS_PER_YEAR;

/// Requests that a SATA drive takes at a time, less the one that the kernel keeps.
const DEPTH: u64 = 31;
/// Requests that the kernel keeps waiting for a disk, where sysfs does not say, and most that are simulated.
const USUAL: u32 = 256;
const MOST: u64 = 1024;

pub(super) fn judge(
    drives: &[Drive],
    facts: &Facts,
    md: Option<&Md>,
    simulator: Option<&dyn Simulator>,
) -> Vec<Finding> {
    let mut seen: Vec<&str> = Vec::new();
    let mut findings = Vec::new();
    let risk = LossRisk::of(facts, drives, simulator);
    for drive in drives {
        let Some(disk) = drive.disk.as_deref() else {
            let why = "it is not a block device of this machine: scheduler, queue depth, write cache and TRIM are its disk's";
            findings.push(Finding::unknown("drive", "not known", why).of_member(&drive.path));
            continue;
        };
        if seen.contains(&disk) {
            findings.push(twice(disk, risk.as_ref()).of_member(&drive.path));
            continue;
        }
        seen.push(disk);
        let of = [
            scheduler(drive, disk, simulator),
            depth(drive, disk, simulator),
            cache(drive, disk, simulator),
            trim(drive, disk, facts, md),
        ];
        findings.extend(of.into_iter().map(|finding| finding.of_member(&drive.path)));
    }
    findings
}

/// Both are out when the disk fails. Of an array that bears one failure that is a loss.
fn twice(disk: &str, risk: Option<&LossRisk>) -> Finding {
    let expected = risk.filter(|risk| risk.bears() == 1).and_then(|risk| {
        let (apart, disk) = (risk.loss()?, risk.class.failures().survival(5.0 * HOURS_PER_YEAR));
        let together = 1.0 - (1.0 - apart) * disk;
        Some(format!(
            "{} instead of at least {} that data is lost in five years (drives of class {})",
            percent(apart),
            percent(together),
            risk.class.name
        ))
    });
    let not = "not predicted: histories are of drives of which each holds one member";
    Finding::change(
        "drive",
        format!("{disk} holds another member too"),
        "both are lost with it, and each waits for the other",
        format!("brindle replace ARRAY MEMBER --with DEVICE   # on another disk than {disk}"),
        expected.unwrap_or_else(|| not.to_owned()),
    )
}

fn scheduler(drive: &Drive, disk: &str, simulator: Option<&dyn Simulator>) -> Finding {
    const TOPIC: &str = "scheduler";
    const SAME: &str = "no more requests in the simulator, whose drives see no processes and no processor time of a scheduler: that \
                        time is what is saved";
    let active = drive.scheduler.as_deref().and_then(|text| text.split(['[', ']']).nth(1).or(Some(text)));
    let (Some(active), Some(rotates)) = (active, drive.rotates) else {
        return Finding::unknown(TOPIC, "not known", "sysfs does not tell");
    };
    let set = |wanted: &str| format!("echo {wanted} > /sys/block/{disk}/queue/scheduler");
    match (active, rotates) {
        ("none", true) => {
            let why = "a disk gains from having its requests ordered, and from deadlines for reads";
            let finding = Finding::change(TOPIC, active, why, set("mq-deadline"), NO_MODEL);
            let few = |known: Option<u64>| Some(known?.clamp(1, MOST) as u32);
            let own = few(drive.queue_depth).unwrap_or(DEPTH as u32);
            let all = own + few(drive.requests).unwrap_or(USUAL);
            let what = format!("random 4K reads of one drive with {all} waiting");
            let under =
                Under::load(&what).at_most("a scheduler comes near to that order, and seldom so many wait");
            compared(finding, simulator, under, |simulator| {
                Ok([simulator.choosing(own, all)?, simulator.choosing(all, all)?])
            })
        }
        ("none" | "mq-deadline", _) => Finding::fine(TOPIC, active, "that suits the drive"),
        (_, false) => {
            let why = "a drive without heads is faster without ordering, and fairness is the array's";
            Finding::unknown(TOPIC, active, why).with_command(set("none")).expecting(SAME)
        }
        _ => {
            let why = "it orders by process, and all requests of an array come from one";
            Finding::unknown(TOPIC, active, why).with_command(set("mq-deadline")).expecting(SAME)
        }
    }
}

fn depth(drive: &Drive, disk: &str, simulator: Option<&dyn Simulator>) -> Finding {
    const TOPIC: &str = "queue depth";
    let Some(depth) = drive.queue_depth.or(drive.requests) else {
        return Finding::unknown(TOPIC, "not known", "sysfs does not tell");
    };
    if depth > 1 {
        return Finding::fine(TOPIC, depth.to_string(), "the drive may order what it is asked");
    }
    let finding = Finding::change(
        TOPIC,
        "1",
        "the drive is asked for one thing at a time (no NCQ): it can't order, nor work on several",
        format!("echo {DEPTH} > /sys/block/{disk}/device/queue_depth"),
        NO_MODEL,
    );
    let deep = |simulator: &dyn Simulator, depth: u64| {
        let job = load(&[("rw", "randread"), ("bs", "4k"), ("iodepth", &depth.to_string())]);
        simulator.drive(format!("queue depth {depth}"), job)
    };
    let under = Under::load("random 4K reads of one drive").at_most("so many wait all the time");
    compared(finding, simulator, under, |simulator| Ok([deep(simulator, 1)?, deep(simulator, DEPTH)?]))
}

fn cache(drive: &Drive, disk: &str, simulator: Option<&dyn Simulator>) -> Finding {
    const TOPIC: &str = "write cache";
    match (drive.write_cache.as_deref(), drive.rotates) {
        (Some("write back"), _) => Finding::fine(
            TOPIC,
            "write back",
            "the array sends flushes, so that what is acknowledged after one stays",
        ),
        (Some("write through"), Some(true)) => {
            let finding = Finding::change(
                TOPIC,
                "write through",
                "each small write waits for the platter; the array flushes where that is needed",
                format!("hdparm -W1 /dev/{disk}   # not behind a controller that keeps its own cache"),
                NO_MODEL,
            );
            let under = Under::load("random 4K writes of one drive, also once its cache is full");
            compared(finding, simulator, under, |simulator| {
                let job = load(&[("rw", "randwrite"), ("bs", "4k")]);
                let without = simulator.drive_without_cache("write through".to_owned(), job.clone())?;
                Ok([without, simulator.drive("write back".to_owned(), job)?])
            })
        }
        (Some("write through"), _) => {
            Finding::fine(TOPIC, "write through", "the drive keeps what it acknowledges (or has power to)")
        }
        _ => Finding::unknown(TOPIC, "not known", "sysfs does not tell"),
    }
}

fn trim(drive: &Drive, disk: &str, facts: &Facts, md: Option<&Md>) -> Finding {
    const TOPIC: &str = "TRIM";
    let Some(most) = drive.discard_max else {
        return Finding::unknown(TOPIC, "not known", "sysfs does not tell");
    };
    if most == 0 {
        let why = if drive.rotates == Some(true) {
            "a disk has no use for it"
        } else {
            "the drive does not take it, or what it is attached to"
        };
        return Finding::fine(TOPIC, format!("{disk} takes none"), why);
    }
    match md.and_then(|md| Some((md, md.discard_max?))) {
        None => Finding::unknown(
            TOPIC,
            "taken by the drive",
            "whether the array passes it on is known where the kernel runs it",
        ),
        Some((md, 0)) if facts.has_parity() => Finding::change(
            TOPIC,
            format!("taken by the drive, not by {}", md.name),
            "md trims parity arrays only if it is told that drives read zeroes after it; tell it so only if all do",
            "echo Y > /sys/module/raid456/parameters/devices_handle_discard_safely   # then stop and assemble the array",
            "not predicted: models of drives don't grow slower as they fill",
        ),
        Some((md, 0)) => Finding::unknown(
            TOPIC,
            format!("taken by the drive, not by {}", md.name),
            "a member without it keeps the array from passing it on",
        ),
        Some(_) => {
            Finding::fine(TOPIC, "taken by the drive and the array", "fstrim from time to time does the rest")
                .with_command("systemctl enable --now fstrim.timer")
        }
    }
}
