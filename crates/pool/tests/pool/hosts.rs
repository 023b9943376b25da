//! Hosts that have a pool: on record from each opening on, given away by order, and refused to others until then.

use brindle_format::pool::Host;
use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_pool::{
    Belonging, Chosen, Holder, How, Pool, PoolConfig, PoolOpenError, choose, create_of, look, open_chosen,
    plan,
};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_volume::VolumeError;
use uuid::Uuid;

fn host(id: u128, name: &str) -> Host {
    Host::new(Uuid::from_u128(id), name)
}

async fn chosen(io: &Io, house: &House) -> Chosen {
    let mut looked = Vec::new();
    for &id in &house.ids {
        looked.push(look(io, "a member", id).await.expect("a member"));
    }
    choose(&looked, None).expect("one state is believed")
}

async fn opened(
    io: &Io,
    house: &House,
    own: Host,
    how: How,
    takes_over: bool,
) -> Result<Pool, PoolOpenError> {
    let config = PoolConfig { host: own, takes_over, ..house.config() };
    open_chosen(io, chosen(io, house).await, how, config).await.map(|(pool, _)| pool)
}

/// The relation of the pool on these members to a host.
async fn whose(io: &Io, house: &House, own: Host) -> Belonging {
    Belonging::of(&chosen(io, house).await.head, own)
}

fn content(sim: &Sim, house: &House) -> Vec<Vec<u8>> {
    let all = |&id: &brindle_io::MemberId| {
        let mut bytes = vec![0; MEMBER as usize];
        sim.peek(id, 0, &mut bytes);
        bytes
    };
    house.ids.iter().map(all).collect()
}

#[test]
fn a_pool_is_its_hosts_until_that_gives_it_away_or_another_takes_it_by_force() {
    let sim = Sim::new(5);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    let (nas, other) = (host(1, "nas"), host(2, "box"));
    let holder = |host| Holder { host, at: 1_800_000_001 };
    io.block_on(async {
        house.create(&io).await;
        assert_eq!(whose(&io, &house, nas).await, Belonging::Nobodys);
        let pool = opened(&io, &house, nas, How::writing(1), false).await.expect("it is nobody's");
        assert_eq!(pool.host(), Some(nas));
        pool.stop().await.expect("stopped");
        assert_eq!(whose(&io, &house, nas).await, Belonging::Own);
    });
    let before = content(&sim, &house);
    io.block_on(async {
        let refused =
            opened(&io, &house, other, How::writing(2), false).await.err().expect("it is another's");
        assert_eq!(refused, PoolOpenError::Anothers(holder(nas)));
        let pool = opened(&io, &house, other, How::ReadOnly, false).await.expect("it is only read");
        assert_eq!(pool.export().await, Err(VolumeError::ReadOnly));
        pool.stop().await.expect("stopped");
    });
    assert!(content(&sim, &house) == before, "something was written");
    io.block_on(async {
        let pool = opened(&io, &house, nas, How::writing(3), false).await.expect("it is this host's");
        pool.export().await.expect("given away");
        assert_eq!(pool.host(), None);
        assert_eq!(pool.export().await, Err(VolumeError::Stopping), "once");
        assert_eq!(whose(&io, &house, nas).await, Belonging::Nobodys);
        let pool = opened(&io, &house, other, How::writing(4), false).await.expect("it is nobody's");
        pool.stop().await.expect("stopped");
        let refused = opened(&io, &house, nas, How::writing(5), false).await.err().expect("it is another's");
        assert_eq!(refused, PoolOpenError::Anothers(holder(other)));
        let pool = opened(&io, &house, nas, How::writing(6), true).await.expect("by force");
        assert_eq!(pool.host(), Some(nas));
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn a_host_that_makes_a_pool_has_it() {
    let sim = Sim::new(6);
    let house = House::new(Kind::Mirror(2), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim));
    let (nas, other) = (host(1, "nas"), host(2, "box"));
    io.block_on(async {
        let spec = house.spec();
        let label = plan(&spec).expect("a pool that can be");
        create_of(&io, &label, spec.opening, &house.ids, nas).await.expect("made");
        assert_eq!(whose(&io, &house, nas).await, Belonging::Own);
        let refused =
            opened(&io, &house, other, How::writing(1), false).await.err().expect("it is another's");
        assert!(matches!(refused, PoolOpenError::Anothers(Holder { host, .. }) if host == nas));
        let pool = opened(&io, &house, nas, How::writing(2), false).await.expect("it is this host's");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}
