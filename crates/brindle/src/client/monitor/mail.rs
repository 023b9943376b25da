//! Mails about events: one event, or all that came together.

use super::changes::{Facts, Happened, host};

/// Events that a mail tells in full; of more it has a line each.
const MOST_IN_FULL: usize = 200;

/// A message as it goes to sendmail: no name from a disk can add a header.
pub(super) fn text(to: &str, from: Option<&str>, events: &[Happened], lost: u64) -> String {
    let host = host();
    let from = header(from.unwrap_or("Brindle monitoring <root>"));
    let subject = match events {
        [] => format!("events on {host}"),
        [only] => format!("{} event on {host}:{}", only.event, shown(&only.array)),
        [first, others @ ..] => {
            format!(
                "{} events on {host}: {} on {}, and {} more",
                events.len(),
                first.event,
                shown(&first.array),
                others.len()
            )
        }
    };
    let mut text = format!(
        "From: {from}\nTo: {}\nSubject: {}\nContent-Type: text/plain; charset=utf-8\n\n\
         This is a message of `brindle monitor` on {host}.\n",
        header(to),
        header(&subject),
    );
    for happened in events.iter().take(MOST_IN_FULL) {
        text.push_str(&format!("\n{}", in_full(happened)));
    }
    if events.len() > MOST_IN_FULL {
        text.push('\n');
    }
    for Happened { event, array, .. } in events.iter().skip(MOST_IN_FULL) {
        text.push_str(&format!("{event} on {}\n", shown(array)));
    }
    if lost > 0 {
        text.push_str(&format!("\n{lost} more events found no room in the queue, and are not told.\n"));
    }
    text.push_str("\n`brindle status` says how all arrays are, and what to type.\n");
    text
}

/// An event with all that is known.
fn in_full(happened: &Happened) -> String {
    let Happened { event, array, device, about, facts, .. } = happened;
    let article = if event.starts_with(['A', 'E', 'I', 'O']) { "An" } else { "A" };
    let mut text = format!("{article} {event} event was seen on {}.\n", shown(array));
    if let Some(device) = device {
        text.push_str(&format!("The device is {}.\n", shown(device)));
    }
    if let Some(about) = about {
        text.push_str(&format!("It is known of it: {}.\n", shown(about)));
    }
    let Facts { state, members, redundancy_left, disks, next } = facts;
    if !state.is_empty() {
        text.push_str(&format!("State: {}\n", shown(&state.join(", "))));
    }
    if let Some((left, of)) = members {
        text.push_str(&format!("Members left: {left} of {of}\n"));
    }
    match redundancy_left {
        Some(left) => {
            text.push_str(&format!("Redundancy left: {left} more may be lost without loss of data\n"));
        }
        None if state.iter().any(|word| word == "broken") => {
            text.push_str("Redundancy left: none, and data are lost\n");
        }
        None => {}
    }
    for disk in disks {
        text.push_str(&format!("Disk: {}\n", shown(disk)));
    }
    if let Some(next) = next {
        text.push_str(&format!("Next: {}\n", shown(next)));
    }
    text
}

/// A name from a disk, in one line and without control characters.
fn shown(name: &str) -> String {
    // Quotes stay as they are, for commands.
    name.chars()
        .flat_map(|letter| if letter.is_control() { letter.escape_debug().collect() } else { vec![letter] })
        .collect()
}

fn header(text: &str) -> String {
    text.replace(|letter: char| letter.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_disks_are_data() {
        let evil = "x\r\nBcc: y@z\u{1b}[1m";
        let mut happened = Happened::new("Fail", evil);
        happened.device = Some("-rf".into());
        happened.facts.disks = vec![evil.to_owned()];
        let mail = text("root\nX: y", Some("a\nb"), &[happened], 0);
        let (head, _) = mail.split_once("\n\n").unwrap();
        assert_eq!(head.lines().count(), 4, "{mail}");
        assert!(!mail.contains('\r') && !mail.contains('\u{1b}'), "{mail}");
    }

    #[test]
    fn a_mail_of_many_names_them_all() {
        let events: Vec<Happened> = (0..500).map(|n| Happened::new("Fail", &format!("x{n}"))).collect();
        let mail = text("root", None, &events, 7);
        assert!(
            mail.contains("\nSubject: 500 events on ") && mail.contains(": Fail on x0, and 499 more\n"),
            "{mail}"
        );
        assert!(events.iter().all(|one| mail.contains(&format!("on {}", one.array))));
        assert!(mail.contains("7 more events found no room"));
    }
}
