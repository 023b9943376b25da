//! Executors beside the first of a modelled world, to which an NBD server sends sessions.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{ChannelTable, Channeled};
use brindle_export::Config;
use brindle_export::nbd::{Away, HOME, Outpost, Post, Posting};
use brindle_host::mailbox;
use brindle_io::sim::Sim;
use brindle_io::{Berth, Duration, Io};
use brindle_volume::{Distant, Volume};

use crate::random::Random;

/// So many executors in all: what sends sessions to them, some of them to the first one, where they stay.
pub fn away<V: Volume + 'static>(
    sim: &Sim,
    io: &Io,
    count: usize,
    config: Config,
    random: Random,
) -> Rc<Away<V>> {
    let mut berths = Berth::crew(count).into_iter();
    berths.next().into_iter().for_each(|berth| io.join(berth));
    let late = |number: usize| Random::stream(random.clone().next(), number as u64);
    let posts = berths.map(|berth| begin(sim, late(berth.number()), berth, config)).collect();
    let random = RefCell::new(random);
    let choose = move || Some(random.borrow_mut().below(count as u64) as usize).filter(|&to| to != HOME);
    Away::new(io, posts, Box::new(choose))
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

fn begin(sim: &Sim, random: Random, berth: Berth, config: Config) -> Post {
    let io = sim.add_executor();
    io.join(berth);
    let (of, channels) = (io.clone(), ChannelTable::new(&io));
    let volume = Box::new(move |distant: Distant| Channeled::new(&of, distant, &channels));
    let outpost = Outpost::new(&io, config, volume);
    drop(io.spawn(be_late(io.clone(), Rc::clone(&outpost), random)));
    let (post, next) = mailbox::mailbox::<Posting>(&io);
    drop(io.spawn(async move {
        while outpost.take(next.next().await) {}
        outpost.stop().await;
    }));
    Box::new(move |posting| post.send(posting))
}
