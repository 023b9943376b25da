//! Numbers that were made with evil intent: none leads an opening through more than there is, and none ends while a pool is written to.

use brindle_format::pool::place::Address;
use brindle_format::pool::{
    BLOCK, Batch, DATA_START, LABEL, MAX_NUMBER, Pointer, PoolError, RING, RING_SLOTS, Root, Uberblock,
    VdevKind, second_label,
};
use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_pool::{
    How, PoolConfig, PoolCreateError, PoolOpenError, PoolSpec, Recovered, VdevSpec, create, open, plan,
};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_volume::Volume;
use uuid::Uuid;

use super::config::{built, bytes_of, opened_as, rename_in_rings, with};

/// The youngest batch of a member whose only one it is, and the byte where its summary stands.
fn youngest(sim: &Sim, house: &House) -> (u64, Batch) {
    let blocks = (DATA_START..MEMBER).step_by(BLOCK);
    let batches = blocks.filter_map(|at| {
        let block = bytes_of(sim, house.ids[0], at, BLOCK);
        let address = Address(u64::from_le_bytes(*block[56..].first_chunk()?));
        Some((at, Batch::parse(&block, house.spec().id, address).ok()?))
    });
    batches.max_by_key(|(_, batch)| batch.sequence).expect("a batch")
}

/// Opens a pool of one member for reading alone, whose youngest batch says that it has another number.
fn opened_with(number: u64) -> (Recovered, u64, Result<String, PoolOpenError>) {
    let (sim, house) = built(Kind::Plain(1), 1);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        let pool = house.open(&io, 2).await;
        let volume = pool.create_volume("one", 1 << 20).await.expect("room");
        for block in 0..8 {
            let buf = io.pool(4096).alloc(4096).await;
            volume.write(block * 4096, buf.all(), true).await.expect("written");
        }
        sim.cut_power();
    });
    io.shutdown();
    let sim = sim.restart(2);
    let (at, batch) = youngest(&sim, &house);
    let own = batch.sequence;
    let mut bytes = Batch { sequence: 7, durable: 7, ..batch }.encode().expect("it fits");
    bytes[40..48].copy_from_slice(&number.to_le_bytes());
    bytes[48..56].copy_from_slice(&number.to_le_bytes());
    bytes[8..12].fill(0);
    let sum = brindle_format::pool::checksum(&bytes);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    sim.poke(house.ids[0], at, &bytes);
    let recovered = with(&sim, async |io| {
        let opened = open(io, &house.ids, How::ReadOnly, None, house.config()).await;
        let (pool, recovered) = opened.expect("it is read");
        pool.stop().await.expect("stopped");
        recovered
    });
    let to_write = with(&sim, async |io| opened_as(io, &house, &house.ids, How::writing(3)).await);
    (recovered, own, to_write)
}

#[test]
fn batches_with_great_numbers_are_counted_without_going_through_them() {
    let great = 1 << 60;
    let (recovered, own, to_write) = opened_with(great);
    let lost = great - own;
    assert_eq!((recovered.first_lost, recovered.lost), (own, lost));
    assert_eq!(to_write, Err(PoolOpenError::Lost { first: own, count: lost }));
    // One that nobody has written is no batch.
    let (recovered, _, to_write) = opened_with(MAX_NUMBER + 1);
    assert_eq!(recovered.lost, 0);
    assert_eq!(to_write, Ok("tank".to_owned()));
}

#[test]
fn a_pool_whose_numbers_are_about_to_end_is_read_and_not_written() {
    type Change = fn(&mut Uberblock, u64);
    let cases: [(&str, Change); 3] = [
        ("records", |head, number| head.record = number),
        ("checkpoints", |head, number| head.checkpoint = number),
        ("batches", |head, number| head.sequence = number),
    ];
    for (what, change) in cases {
        for (number, is_refused) in [(MAX_NUMBER / 2, false), (MAX_NUMBER / 2 + 1, true), (MAX_NUMBER, true)]
        {
            let (sim, house) = built(Kind::Mirror(2), 2);
            rename_in_rings(&sim, &house, |head| change(head, number));
            let opened = |how| with(&sim, async |io| opened_as(io, &house, &house.ids, how).await);
            assert_eq!(opened(How::ReadOnly), Ok("tank".to_owned()), "{what} {number}");
            let expected = match is_refused {
                true => Err(PoolOpenError::NumbersEnd { what, number }),
                false => Ok("tank".to_owned()),
            };
            assert_eq!(opened(How::writing(3)), expected, "{what} {number}");
        }
    }
}

/// A sparse file has any size.
#[test]
fn segments_that_no_table_can_have_are_refused_before_they_take_memory() {
    const SIZE: u64 = 1 << 45;
    let sim = Sim::new(3);
    let id = sim.add_blank_drive(Model::sata_ssd(), SIZE);
    let spec = |unit| PoolSpec {
        name: "tank".to_owned(),
        id: Uuid::from_u128(1),
        members: vec![Uuid::from_u128(2)],
        opening: 1,
        created: 1,
        vdevs: vec![VdevSpec { kind: VdevKind::Plain, parity: 0, sizes: vec![SIZE] }],
        unit,
    };
    let refused = plan(&spec(Some(64 << 10)));
    assert!(matches!(refused, Err(PoolCreateError::Segments { .. })), "{refused:?}");
    // More than a pool is made with, and as many as it may have whose table no uberblock could name.
    for (units, pages) in [(1 << 27, 0), (1 << 27, 5), (1 << 25, 0), (1 << 25, 400_000)] {
        let mut label = plan(&spec(None)).expect("units that suit it");
        (label.vdevs[0].unit, label.vdevs[0].units) = (16, units);
        (label.members[0].units, label.runs[0].units) = (units, units);
        with(&sim, async |io| create(io, &label, 1, &[id]).await.expect("made"));
        let slots = [LABEL, second_label(SIZE)]
            .into_iter()
            .flat_map(|label| (0..RING_SLOTS).map(move |n| (label, n)));
        for at in slots.map(|(label, n)| label + RING + n * BLOCK as u64) {
            if let Ok(mut head) = Uberblock::parse(&bytes_of(&sim, id, at, BLOCK), label.pool) {
                let top = (pages > 0).then_some(Pointer { address: Address(1), checksum: 7 });
                head.segments = Root { top, pages, levels: Root::levels_of(pages) };
                sim.poke(id, at, &head.encode().expect("it fits"));
            }
        }
        // No segment is named that holds pages of the table.
        let value = if pages > 5 { pages.into() } else { units.into() };
        for how in [How::ReadOnly, How::writing(2)] {
            let opened =
                with(&sim, async |io| open(io, &[id], how, None, PoolConfig::new(|| 1)).await.map(drop));
            let why = PoolError::Impossible { what: "uberblock", field: "segments", value };
            assert_eq!(opened, Err(why.into()), "{units} segments, {pages} pages, {how:?}");
        }
    }
}
