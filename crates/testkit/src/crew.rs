//! Executors beside the first of a modelled world, to which an NBD server sends sessions.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_export::Config;
use brindle_export::nbd::{Away, HOME, Outpost, Post, Posting};
use brindle_host::mailbox;
use brindle_io::sim::Sim;
use brindle_io::{Berth, Io};
use brindle_volume::{Forwarded, Volume};

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
    let posts = berths.map(|berth| begin(sim, berth, config)).collect();
    let random = RefCell::new(random);
    let choose = move || Some(random.borrow_mut().below(count as u64) as usize).filter(|&to| to != HOME);
    Away::new(io, posts, Box::new(choose))
}

fn begin(sim: &Sim, berth: Berth, config: Config) -> Post {
    let io = sim.add_executor();
    io.join(berth);
    let of = io.clone();
    let outpost =
        Outpost::new(&io, config, Box::new(move |number, limits| Forwarded::new(&of, HOME, number, limits)));
    let (post, next) = mailbox::mailbox::<Posting>(&io);
    drop(io.spawn(async move {
        while outpost.take(next.next().await) {}
        outpost.stop().await;
    }));
    Box::new(move |posting| post.send(posting))
}
