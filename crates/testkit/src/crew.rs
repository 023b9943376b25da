//! Executors beside the first of a modelled world, to which an NBD server sends sessions.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{ChannelTable, Channeled};
use brindle_export::nbd::{Away, Choose, HOME, Outpost, Post, Posting, Unplaced};
use brindle_export::{Config, MemoryShare};
use brindle_host::mailbox;
use brindle_io::sim::Sim;
use brindle_io::{Berth, Duration, Io};
use brindle_volume::{Distant, Volume};

use crate::random::Random;

/// An executor for each share beside the first one: what sends sessions to them, some of them to the first one, where they stay.
pub fn away<V: Volume + 'static>(
    sim: &Sim,
    io: &Io,
    shares: Vec<MemoryShare>,
    config: Config,
    random: &Random,
) -> Rc<Away<V>> {
    let (count, choices) = (shares.len() as u64 + 1, RefCell::new(random.clone()));
    let choose =
        move |_: Unplaced<'_>| Some(choices.borrow_mut().below(count) as usize).filter(|&to| to != HOME);
    away_by(sim, io, (shares, config), random, Box::new(choose))
}

/// The same, where `choose` says who gets a session.
pub fn away_by<V: Volume + 'static>(
    sim: &Sim,
    io: &Io,
    (shares, config): (Vec<MemoryShare>, Config),
    random: &Random,
    choose: Choose,
) -> Rc<Away<V>> {
    let mut berths = Berth::crew(shares.len() + 1).into_iter();
    berths.next().into_iter().for_each(|berth| io.join(berth));
    let late = |number: usize| Random::stream(random.clone().next(), number as u64);
    let posts = berths.zip(shares).map(|(berth, share)| {
        let random = late(berth.number());
        begin(sim, random, berth, (share, config))
    });
    Away::new(io, posts.collect(), choose)
}

/// Time between two spells in which an executor is late, and that which one takes, at most.
const BETWEEN: u64 = 2000;
const LATE: u64 = 500;

/// Now and then parcels come late while sessions are here.
async fn be_late(io: Io, outpost: Rc<Outpost<Channeled>>, mut random: Random) {
    loop {
        io.sleep(Duration::from_micros(1 + random.below(BETWEEN))).await;
        if outpost.count() > 0 {
            io.take_parcels_late(true);
            io.sleep(Duration::from_micros(1 + random.below(LATE))).await;
            io.take_parcels_late(false);
        }
    }
}

fn begin(sim: &Sim, random: Random, berth: Berth, (share, config): (MemoryShare, Config)) -> Post {
    let io = sim.add_executor();
    io.join(berth);
    let (of, channels) = (io.clone(), ChannelTable::new(&io));
    let volume = Box::new(move |distant: Distant| Channeled::new(&of, distant, &channels));
    let outpost = Outpost::new(&io, config, share, volume);
    drop(io.spawn(be_late(io.clone(), Rc::clone(&outpost), random)));
    let (post, next) = mailbox::mailbox::<Posting>(&io);
    drop(io.spawn(async move {
        while outpost.take(next.next().await) {}
        outpost.stop().await;
    }));
    Box::new(move |posting| post.send(posting))
}
