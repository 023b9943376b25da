//! From a configuration to `brindle create` or `brindle pool create`.

use brindle_planner::{Configuration, MadeAs, Part, Scheme};

use crate::base::units::Bytes;

/// The commands that make it, with `drive1`, `drive2` and so on for the members; none if Brindle can't.
pub(super) fn commands(configuration: &Configuration, chunk: u64) -> Vec<String> {
    match configuration.made_as() {
        None => Vec::new(),
        Some(MadeAs::Array) => arrays(&groups(configuration), chunk),
        Some(MadeAs::Pool) => vec![pool(&groups(configuration))],
    }
}

/// Each group with its members.
fn groups(configuration: &Configuration) -> Vec<(Part, Vec<String>)> {
    let mut next = 1;
    let mut groups: Vec<(Part, Vec<String>)> = Vec::new();
    for part in &configuration.parts {
        for _ in 0..part.groups {
            let members = (next..next + part.width).map(|number| format!("drive{number}")).collect();
            next += part.width;
            groups.push((*part, members));
        }
    }
    groups
}

/// A vdev of each group.
fn pool(groups: &[(Part, Vec<String>)]) -> String {
    let vdev = |(part, members): &(Part, Vec<String>)| {
        let kind = match part.scheme {
            Scheme::RaidZ(parity) => format!("raidz{parity}"),
            _ => "mirror".to_owned(),
        };
        format!("{kind} {}", members.join(" "))
    };
    format!("brindle pool create tank {}", groups.iter().map(vdev).collect::<Vec<_>>().join(" "))
}

fn arrays(groups: &[(Part, Vec<String>)], chunk: u64) -> Vec<String> {
    let size = chunk_flag(chunk);
    if groups.iter().all(|(part, _)| part.scheme == Scheme::Stripe) {
        let members: Vec<&str> = groups.iter().flat_map(|(_, members)| members).map(String::as_str).collect();
        return vec![format!("brindle create --level 0{size} {}", members.join(" "))];
    }
    let made = groups
        .iter()
        .map(|(part, members)| format!("brindle create {} {}", flags(part, &size), members.join(" ")));
    let mut all: Vec<String> = made.collect();
    if groups.len() > 1 {
        let joined: Vec<String> = groups.iter().map(|(_, members)| members.join("+")).collect();
        all.push(format!("brindle create --level 0{size} {}", joined.join(" ")));
    }
    all
}

fn flags(part: &Part, size: &str) -> String {
    match part.scheme {
        Scheme::Stripe => format!("--level 0{size}"),
        Scheme::Mirror => "--level 1".to_owned(),
        Scheme::Raid10(layout) => format!("--level 10 --layout {layout}{size}"),
        Scheme::DedicatedParity => format!("--level 4{size}"),
        Scheme::Parity(1) | Scheme::RaidZ(_) => format!("--level 5{size}"),
        Scheme::Parity(_) => format!("--level 6{size}"),
    }
}

fn chunk_flag(chunk: u64) -> String {
    format!(" --chunk {}", Bytes(chunk).to_string().replace(" KiB", "K").replace(" MiB", "M"))
}
