//! Looks once a round which clients have stopped moving, and closes those that harm others.
//!
//! Patience is counted in rounds, not by the clock: while this process itself does not run (stopped by a signal, or by a
//! hypervisor), no client is closed.

use std::rc::Rc;

use brindle_io::sync::race;

use super::config::VISIT;
use super::roster::Roster;

/// Goes round until there are no connections.
pub(super) async fn run(roster: Rc<Roster>) {
    while !roster.links.borrow().is_empty() {
        race(roster.io.sleep(roster.config.round()), roster.emptied()).await;
        look(&roster);
    }
    roster.patrolled.set(false);
}

fn look(roster: &Roster) {
    let config = &roster.config;
    let [stall, deadline, handshake, visit] =
        [config.stall, config.deadline, config.handshake, VISIT].map(|span| config.rounds(span));
    let links = roster.links.borrow();
    for link in links.values() {
        link.look();
    }
    let memory = &roster.memory;
    let wanted = memory.is_wanted();
    for (id, link) in links.iter().filter(|(_, link)| !link.is_closed()) {
        if link.undecided.get() > handshake && !link.is_settled() {
            tracing::info!(connection = id, "closed: no export chosen in time");
            link.close();
        } else if link.is_visit() && link.undecided.get() > visit {
            tracing::info!(
                connection = id,
                "closed: it wanted to learn of targets, and has asked nothing more"
            );
            link.close();
        } else if wanted && link.held.get() > 0 && link.still() >= stall {
            tracing::warn!(
                connection = id,
                bytes = link.held.get(),
                "closed: it holds memory that others wait for and does not move"
            );
            link.close();
        } else if link.dead() >= deadline {
            tracing::warn!(
                connection = id,
                "closed: it takes no replies, or does not send what it announced"
            );
            link.close();
        }
    }
    // Memory of clients that have just been closed is about to come back.
    let stuck = links.values().filter(|link| link.is_stuck() && !link.is_closed());
    memory.stuck.set(stuck.map(|link| link.held.get()).sum());
    memory.look_again();
}
