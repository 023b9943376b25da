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
    while !roster.accounts.borrow().is_empty() {
        race(roster.io.sleep(roster.config.round()), roster.emptied()).await;
        look(&roster);
    }
    are_stuck(&roster, 0);
    roster.patrolled.set(false);
}

/// Notes how many bytes clients hold that do not move. Clients of other protocols may have the same memory.
fn are_stuck(roster: &Roster, bytes: usize) {
    roster.memory.patrolled(roster.stuck.replace(bytes), bytes);
}

fn look(roster: &Roster) {
    let config = &roster.config;
    let [stall, deadline, handshake, visit] =
        [config.stall, config.deadline, config.handshake, VISIT].map(|span| config.rounds(span));
    let accounts = roster.accounts.borrow();
    for account in accounts.values() {
        account.look();
    }
    let memory = &roster.memory;
    let wanted = memory.is_wanted();
    for (id, account) in accounts.iter().filter(|(_, account)| !account.is_closed()) {
        if account.undecided.get() > handshake && !account.is_settled() {
            tracing::info!(connection = id, "closed: no export chosen in time");
            account.close();
        } else if account.is_visit() && account.undecided.get() > visit {
            tracing::info!(
                connection = id,
                "closed: it wanted to learn of targets, and has asked nothing more"
            );
            account.close();
        } else if wanted && account.held.get() > 0 && account.still() >= stall {
            tracing::warn!(
                connection = id,
                bytes = account.held.get(),
                "closed: it holds memory that others wait for and does not move"
            );
            account.close();
        } else if account.dead() >= deadline {
            tracing::warn!(
                connection = id,
                "closed: it takes no replies, or does not send what it announced"
            );
            account.close();
        }
    }
    // Memory of clients that have just been closed is about to come back.
    let stuck = accounts.values().filter(|account| account.is_stuck() && !account.is_closed());
    are_stuck(roster, stuck.map(|account| memory.kept_by(account)).sum());
    memory.look_again();
}
