//! What is set of the members' drives.

use super::array::Facts;
use super::finding::Finding;
use super::simulated::{NO_MODEL, Simulator, compared, load};
use super::sysfs::{Drive, Md};

/// Requests that a SATA drive takes at a time, less the one that the kernel keeps.
const DEPTH: u64 = 31;

pub(super) fn judge(
    drives: &[Drive],
    facts: &Facts,
    md: Option<&Md>,
    simulator: Option<&Simulator>,
) -> Vec<Finding> {
    let mut seen: Vec<&str> = Vec::new();
    let mut findings = Vec::new();
    for drive in drives {
        let Some(disk) = drive.disk.as_deref() else {
            let why = "it is no block device of this machine: scheduler, queue depth, write cache and TRIM are its disk's";
            findings.push(Finding::unknown("drive", "not known", why).of_member(&drive.path));
            continue;
        };
        if seen.contains(&disk) {
            findings.push(twice(disk).of_member(&drive.path));
            continue;
        }
        seen.push(disk);
        let of = [
            scheduler(drive, disk),
            depth(drive, disk, simulator),
            cache(drive, disk, simulator),
            trim(drive, disk, facts, md),
        ];
        findings.extend(of.into_iter().map(|finding| finding.of_member(&drive.path)));
    }
    findings
}

fn twice(disk: &str) -> Finding {
    Finding::change(
        "drive",
        format!("{disk} holds another member too"),
        "both are lost with it, and each waits for the other",
        format!("brindle replace ARRAY MEMBER --with DEVICE   # on another disk than {disk}"),
        "not predicted: drives are modelled one to a member",
    )
}

fn rotates(drive: &Drive) -> Option<bool> {
    drive.number("queue/rotational").map(|rotates| rotates == 1)
}

fn scheduler(drive: &Drive, disk: &str) -> Finding {
    const TOPIC: &str = "scheduler";
    const EXPECTED: &str = "not predicted: the simulator's drives are asked without a scheduler";
    let text = drive.text("queue/scheduler");
    let active = text.as_deref().and_then(|text| text.split(['[', ']']).nth(1).or(Some(text)));
    let (Some(active), Some(rotates)) = (active, rotates(drive)) else {
        return Finding::unknown(TOPIC, "not known", "sysfs does not tell");
    };
    let set = |wanted: &str| format!("echo {wanted} > /sys/block/{disk}/queue/scheduler");
    match (active, rotates) {
        ("none", true) => {
            let why = "a disk gains from having its requests ordered, and from deadlines for reads";
            Finding::change(TOPIC, active, why, set("mq-deadline"), EXPECTED)
        }
        ("none" | "mq-deadline", _) => Finding::fine(TOPIC, active, "that suits the drive"),
        (_, false) => {
            let why = "a drive without heads is faster without ordering, and fairness is the array's";
            Finding::change(TOPIC, active, why, set("none"), EXPECTED)
        }
        _ => {
            let why = "it orders by process, and all requests of an array come from one";
            Finding::change(TOPIC, active, why, set("mq-deadline"), EXPECTED)
        }
    }
}

fn depth(drive: &Drive, disk: &str, simulator: Option<&Simulator>) -> Finding {
    const TOPIC: &str = "queue depth";
    let requests = drive.number("queue/nr_requests");
    let Some(depth) = drive.number("device/queue_depth").or(requests) else {
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
    let deep = |simulator: &Simulator, depth: u64| {
        let job = load(&[("rw", "randread"), ("bs", "4k"), ("iodepth", &depth.to_string())])?;
        simulator.drive(format!("queue depth {depth}"), job)
    };
    compared(finding, simulator, "random 4K reads of one drive", |simulator| {
        Ok([deep(simulator, 1)?, deep(simulator, DEPTH)?])
    })
}

fn cache(drive: &Drive, disk: &str, simulator: Option<&Simulator>) -> Finding {
    const TOPIC: &str = "write cache";
    match (drive.text("queue/write_cache").as_deref(), rotates(drive)) {
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
            compared(
                finding,
                simulator,
                "random 4K writes of one drive, until its cache is full",
                |simulator| {
                    let job = load(&[("rw", "randwrite"), ("bs", "4k")])?;
                    let without = simulator.drive_without_cache("write through".to_owned(), job.clone())?;
                    Ok([without, simulator.drive("write back".to_owned(), job)?])
                },
            )
        }
        (Some("write through"), _) => {
            Finding::fine(TOPIC, "write through", "the drive keeps what it acknowledges (or has power to)")
        }
        _ => Finding::unknown(TOPIC, "not known", "sysfs does not tell"),
    }
}

fn trim(drive: &Drive, disk: &str, facts: &Facts, md: Option<&Md>) -> Finding {
    const TOPIC: &str = "TRIM";
    let Some(most) = drive.number("queue/discard_max_bytes") else {
        return Finding::unknown(TOPIC, "not known", "sysfs does not tell");
    };
    if most == 0 {
        let why = if rotates(drive) == Some(true) {
            "a disk has no use for it"
        } else {
            "the drive does not take it, or what it is attached to"
        };
        return Finding::fine(TOPIC, format!("{disk} takes none"), why);
    }
    match md.and_then(|md| Some((md, md.number("queue/discard_max_bytes")?))) {
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
