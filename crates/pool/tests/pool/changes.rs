//! Changes of the config where members refuse writes, miss changes and come back: no change goes over the only copy that counts, and each member
//! by itself stays one that opens.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_format::pool::{
    BLOCK, CONFIG_BYTES, CONFIGS, DATA_START, LABEL, Label, MAX_GENERATION, MemberState, Run, VdevKind,
    second_label,
};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::{
    How, Pool, PoolChangeError, PoolConfig, PoolOpenError, PoolSpec, VdevSpec, choose, create, look, open,
    plan,
};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use uuid::Uuid;

use super::config::{built, bytes_of, config_of, name_read, opened_as, rename_in_rings, with};

/// A member without room for a write stays in use.
fn waiting(house: &House) -> PoolConfig {
    PoolConfig { waits_for_space: true, ..house.config() }
}

/// Has a member find no room for any write, or has it find room again.
fn fill(sim: &Sim, id: MemberId, is_full: bool) {
    sim.afflict(id, |faults| faults.full_on_write = is_full.then_some(0..MEMBER));
}

/// The name that the members at these places say, by themselves.
fn name_alone(sim: &Sim, house: &House, there: &[usize]) -> Result<String, PoolOpenError> {
    let ids: Vec<MemberId> = there.iter().map(|&n| house.ids[n]).collect();
    with(sim, async |io| opened_as(io, house, &ids, How::ReadOnly).await)
}

/// Gives a pool a name on members of which the first `full` have no room from a step of that on, for a while. Gives the pool, and whether there
/// were so many steps.
async fn renamed_on_full(sim: &Sim, io: &Io, house: &House, full: usize, from: u64) -> (Pool, bool) {
    let (pool, _) =
        open(io, &house.ids, How::writing(2), None, waiting(house)).await.expect("a pool that is well");
    let (is_over, was_full) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    for &id in &house.ids[..full] {
        let (is_over, was_full) = (Rc::clone(&is_over), Rc::clone(&was_full));
        sim.schedule(When::Step(sim.steps() + from), id, move |faults| {
            was_full.set(!is_over.get());
            faults.full_on_write = Some(0..MEMBER).filter(|_| !is_over.get());
        });
    }
    let then = io.now().after(Duration::from_secs(30));
    for &id in &house.ids {
        sim.schedule(When::Moment(then), id, |faults| faults.full_on_write = None);
    }
    let renamed = pool.rename("first").await;
    is_over.set(true);
    assert_eq!(renamed.is_ok(), pool.label().name == "first", "{renamed:?}");
    io.sleep(Duration::from_secs(40)).await;
    (pool, was_full.get())
}

/// The second change comes in the same run: nothing has set labels right in between.
#[test]
fn a_change_behind_one_that_found_no_room_does_not_go_over_the_only_config_that_counts() {
    for (kind, full) in [(Kind::Plain(1), 1), (Kind::Mirror(2), 1), (Kind::Mirror(2), 2)] {
        let mut rested = Vec::new();
        for from in 0.. {
            let (mut cut, was_full) = (0, Cell::new(false));
            loop {
                let (sim, house) = built(kind, from);
                let io = Io::new(Box::new(sim.clone()));
                let was = RefCell::new(String::new());
                let ended = io.block_on(sim.until_end(&io, async {
                    let (pool, is_full) = renamed_on_full(&sim, &io, &house, full, from).await;
                    was_full.set(is_full);
                    was.replace(pool.label().name.clone());
                    let first = config_of(&sim, house.ids[0], 0, 0).map(|config| config.name);
                    rested.push(first.as_deref() == Ok("first"));
                    sim.cut_power_at(When::Step(sim.steps() + cut));
                    pool.rename("second").await.map_err(|why| why.to_string())
                }));
                sim.cut_power();
                io.shutdown();
                let (sim, was) = (sim.restart(from + 2), was.into_inner());
                let mut names = vec![name_alone(&sim, &house, &(0..house.ids.len()).collect::<Vec<_>>())];
                for n in 0..house.ids.len() {
                    names.push(name_alone(&sim, &house, &[n]));
                }
                let told = format!("{kind:?} full from step {from}, cut at {cut}: {names:?}");
                for name in &names {
                    let name = name.as_deref().expect(&told);
                    assert!(name == "second" || ended.is_none() && name == was, "{told}, was {was}");
                }
                cut += 3;
                if let Some(ended) = ended {
                    assert_eq!(ended, Ok(()));
                    break;
                }
            }
            // Each operation of the first change had its turn.
            if !was_full.get() {
                break;
            }
        }
        assert!(rested.contains(&true) && rested.contains(&false), "{rested:?}");
    }
}

/// The same while the pool stays open, and while an opening finds the members in different states.
#[test]
fn a_change_goes_to_the_other_place_of_each_label() {
    for is_reopened in [false, true] {
        let mut cut = 0;
        loop {
            let (sim, house) = built(Kind::Mirror(2), cut);
            let io = Io::new(Box::new(sim.clone()));
            let ended = io.block_on(sim.until_end(&io, async {
                let opened = async |opening| {
                    let how = How::writing(opening);
                    open(&io, &house.ids, how, None, waiting(&house)).await.expect("a pool that is well").0
                };
                let pool = opened(2).await;
                let rests = |n: usize, name: &str| {
                    let names = [0, 1].map(|label| config_of(&sim, house.ids[n], label, 0));
                    names.iter().all(|config| config.as_ref().is_ok_and(|config| config.name == name))
                };
                // The first place of the first label of one of them has no room.
                let first = LABEL..LABEL + CONFIGS[1];
                sim.afflict(house.ids[0], |faults| faults.full_on_write = Some(first));
                pool.rename("first").await.expect("it counts where it stands");
                assert!(!rests(0, "first"));
                let pool = if is_reopened {
                    pool.stop().await.expect("stopped");
                    opened(3).await
                } else {
                    pool
                };
                sim.afflict(house.ids[0], |faults| faults.full_on_write = None);
                sim.cut_power_at(When::Step(sim.steps() + cut));
                pool.rename("second").await.map_err(|why| why.to_string())
            }));
            sim.cut_power();
            io.shutdown();
            let sim = sim.restart(cut + 1);
            for there in [&[0, 1][..], &[0], &[1]] {
                let name = name_alone(&sim, &house, there).expect("one counts");
                assert!(name == "second" || ended.is_none() && name == "first", "cut at {cut}: {name}");
            }
            if ended.is_some() {
                break;
            }
            cut += 1;
        }
    }
}

/// The opening that gives a member the config that it missed, cut at each of its steps: the member is one that opens by itself, as it was or as it
/// is now.
#[test]
fn a_member_that_is_given_a_config_stays_one_that_opens_alone() {
    for missed in [1, 2] {
        let mut names = Vec::new();
        for cut in 0.. {
            let (sim, house) = built(Kind::Mirror(2), cut);
            with(&sim, async |io| {
                for (opening, name) in (2..).zip(["a", "b"]).take(missed) {
                    let (pool, _) =
                        house.open_without(io, 1, How::degraded(opening)).await.expect("it opens");
                    pool.rename(name).await.expect("renamed");
                    pool.stop().await.expect("stopped");
                }
            });
            let mut sim = sim.restart(cut + 1);
            let now = ["a", "b"][missed - 1];
            let mut ended = None;
            // A second opening finds what the first one has left.
            for (opening, cut) in [(4, cut), (5, cut / 2)] {
                let io = Io::new(Box::new(sim.clone()));
                sim.cut_power_at(When::Step(sim.steps() + cut));
                ended = io.block_on(sim.until_end(&io, async {
                    let pool = house.open(&io, opening).await;
                    pool.stop().await.expect("stopped");
                }));
                sim.cut_power();
                io.shutdown();
                sim = sim.restart(cut + opening);
                let alone = name_alone(&sim, &house, &[0]);
                let told = format!("opening {opening} cut at {cut}: {alone:?}");
                let name = alone.as_deref().expect(&told);
                assert!(name == "tank" || name == now, "{told}");
                assert_eq!(name_alone(&sim, &house, &[0, 1]).as_deref(), Ok(now), "{told}");
                assert_eq!(name_alone(&sim, &house, &[1]).as_deref(), Ok(now), "{told}");
                names.push(name.to_owned());
            }
            if ended.is_some() {
                break;
            }
        }
        assert!(names.iter().any(|name| name == "tank") && names.iter().any(|name| name == now_of(missed)));
    }
}

fn now_of(missed: usize) -> &'static str {
    ["a", "b"][missed - 1]
}

/// A change that one member had no room for was named nowhere. The members go on apart, and come together again.
#[test]
fn a_change_that_was_never_named_is_none_when_its_member_comes_back() {
    let (sim, house) = built(Kind::Mirror(2), 8);
    with(&sim, async |io| {
        let how = How::writing(2);
        let (pool, _) = open(io, &house.ids, how, None, waiting(&house)).await.expect("it is well");
        fill(&sim, house.ids[1], true);
        assert!(pool.rename("never").await.is_err());
        fill(&sim, house.ids[1], false);
        assert_eq!(pool.label().name, "tank");
        pool.stop().await.expect("stopped");
    });
    // The config of that change has the generation that the next one gets.
    let never = config_of(&sim, house.ids[0], 0, 1).expect("it was written");
    assert_eq!((never.name.as_str(), never.generation), ("never", 2));
    let sim = sim.restart(9);
    with(&sim, async |io| {
        let (pool, _) = house.open_without(io, 1, How::degraded(3)).await.expect("it opens");
        pool.rename("other").await.expect("renamed");
        pool.stop().await.expect("stopped");
    });
    let sim = sim.restart(10);
    assert_eq!(name_alone(&sim, &house, &[0]).as_deref(), Ok("tank"));
    assert_eq!(name_alone(&sim, &house, &[0, 1]).as_deref(), Ok("other"));
    let name = with(&sim, async |io| opened_as(io, &house, &house.ids, How::writing(4)).await);
    assert_eq!(name.as_deref(), Ok("other"));
    let sim = sim.restart(11);
    assert_eq!(name_alone(&sim, &house, &[0]).as_deref(), Ok("other"));
}

/// A change cut at each step while a member is missing, and in the run that takes it again: each set of members that is enough agrees.
#[test]
fn a_cut_leaves_one_config_with_a_member_missing_and_with_one_that_returns() {
    let kind = Kind::Raidz(1, 3);
    for returns in [false, true] {
        for cut in 0.. {
            let (sim, house) = built(kind, cut);
            with(&sim, async |io| {
                let (pool, _) = house.open_without(io, 1, How::degraded(2)).await.expect("it opens");
                pool.rename("a").await.expect("renamed");
                pool.stop().await.expect("stopped");
            });
            let sim = sim.restart(cut + 1);
            let io = Io::new(Box::new(sim.clone()));
            let lost = usize::from(!returns);
            let ended = io.block_on(sim.until_end(&io, async {
                sim.cut_power_at(When::Step(sim.steps() + cut));
                let (pool, _) = house.open_without(&io, lost, How::degraded(3)).await.expect("it opens");
                pool.rename("b").await.expect("renamed");
            }));
            sim.cut_power();
            io.shutdown();
            let mut sim = sim.restart(cut + 2);
            let told = format!("cut at {cut}, returns: {returns}");
            let read = name_read(&sim, &house, |_| true).expect(&told).0;
            assert!(read == "b" || ended.is_none() && read == "a", "{told}: {read}");
            for there in [&[0, 1, 2][..], &[1, 2]] {
                let name = name_alone(&sim, &house, there).expect(&told);
                assert!(name == read || ended.is_none() && name == "a", "{told}: {there:?} say {name}");
            }
            let name = with(&sim, async |io| opened_as(io, &house, &house.ids, How::degraded(5)).await);
            assert_eq!(name.as_deref(), Ok(read.as_str()), "{told}");
            sim = sim.restart(cut + 3);
            for there in [&[0, 1, 2][..], &[1, 2], &[0, 1], &[0, 2]] {
                assert_eq!(
                    name_alone(&sim, &house, there).as_deref(),
                    Ok(read.as_str()),
                    "{told}: {there:?}"
                );
            }
            if ended.is_some() {
                break;
            }
        }
    }
}

#[test]
fn a_pool_of_more_members_than_configs_find_memory_is_renamed() {
    const COUNT: usize = 200;
    let sim = Sim::new(12);
    let ids: Vec<MemberId> = (0..COUNT).map(|_| sim.add_blank_drive(Model::nvme(), MEMBER)).collect();
    let vdev = VdevSpec { kind: VdevKind::Raidz, parity: 1, sizes: vec![MEMBER; COUNT / 4] };
    let spec = PoolSpec {
        name: "tank".to_owned(),
        id: Uuid::from_u128(1),
        members: (0..COUNT).map(|n| Uuid::from_u128(n as u128 + 1)).collect(),
        opening: 1,
        created: 1,
        vdevs: vec![vdev; 4],
        unit: Some(64 << 10),
    };
    let config = PoolConfig::new(|| 1);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        create(&io, &plan(&spec).expect("a pool that can be"), 1, &ids).await.expect("made");
        let most = io.now().after(Duration::from_secs(60));
        let changed = io.clone().spawn({
            let (io, ids) = (io.clone(), ids.clone());
            async move {
                // One is missing, and is given what it missed by the next opening.
                for (opening, lost, name) in [(2, 1, "a"), (3, 0, "b")] {
                    let how = How::degraded(opening);
                    let (pool, _) = open(&io, &ids[lost..], how, None, config).await.expect("it opens");
                    pool.rename(name).await.expect("renamed");
                    pool.stop().await.expect("stopped");
                }
            }
        });
        let ended = brindle_io::sync::race(changed, io.sleep_until(most)).await;
        assert!(matches!(ended, brindle_io::sync::Either::First(())), "it hangs");
    });
    io.shutdown();
    for &id in &ids {
        assert_eq!(config_of(&sim, id, 1, 0).map(|config| config.name), Ok("b".to_owned()));
    }
}

#[test]
fn names_and_generations_that_can_not_be_are_refused_and_nothing_is_changed() {
    let (sim, house) = built(Kind::Mirror(2), 13);
    let long = "x".repeat(65);
    let bad = ["", &long, "a/b", "a@b", ".", "..", "a\nb", "a\u{7f}b", "a b", "-a"];
    with(&sim, async |io| {
        let pool = house.open(io, 2).await;
        for name in bad {
            let why = pool.rename(name).await.expect_err(name);
            assert!(matches!(why, PoolChangeError::Name(_)), "{name}: {why}");
        }
        assert_eq!(pool.rename("tank").await, Err(PoolChangeError::SameName("tank".to_owned())));
        assert_eq!((pool.label().name.as_str(), pool.label().generation), ("tank", 1));
        pool.stop().await.expect("stopped");
    });
    let sim = sim.restart(14);
    let mut name = None;
    for &id in &house.ids {
        for label in [0, 1] {
            let mut config = config_of(&sim, id, label, 0).expect("a config");
            config.generation = MAX_GENERATION;
            sim.poke(
                id,
                [LABEL, second_label(MEMBER)][label],
                &config.encode().expect("the last that can be"),
            );
            name = config.config_name().ok();
        }
    }
    rename_in_rings(&sim, &house, |uberblock| uberblock.config = name.expect("a name"));
    with(&sim, async |io| {
        let pool = house.open(io, 3).await;
        assert_eq!(pool.rename("other").await, Err(PoolChangeError::Generation(MAX_GENERATION)));
        pool.stop().await.expect("stopped");
    });
    let last = config_of(&sim, house.ids[0], 0, 0).expect("a config");
    assert!(Label { generation: MAX_GENERATION + 1, ..last.clone() }.encode().is_err());
    assert!(Label { generation: 0, ..last }.encode().is_err());
}

/// Each segment takes memory, also one that no device has.
#[test]
fn segments_that_no_device_confirms_are_refused_before_they_take_memory() {
    type Change = fn(&mut Label);
    let cases: [(&str, Change); 2] = [
        ("too many members are missing: 1.0", |label| {
            // As many as there can be, of a member that is not there.
            let mut vdev = label.vdevs[0];
            (vdev.kind, vdev.parity, vdev.members, vdev.unit) = (VdevKind::Plain, 0, 1, 26);
            let first = label.runs[0].end();
            vdev.units = (1 << 28) - first;
            let mut member = label.members[0];
            (member.id, member.role, member.units) = (Uuid::from_u128(70), Some((1, 0)), vdev.units);
            (member.size, member.state) = (1 << 59, MemberState::InUse);
            label.runs.push(Run { first_segment: first, units: vdev.units, first_unit: 0, vdev: 1 });
            label.vdevs.push(vdev);
            label.members.push(member);
        }),
        ("the pool's run has the impossible value", |label| {
            let units = label.runs[0].units;
            label.runs[0].first_segment = (1 << 28) - units;
        }),
    ];
    for (expected, change) in cases {
        let (sim, house) = built(Kind::Raidz(1, 3), 15);
        let mut name = None;
        for &id in &house.ids {
            for label in [0, 1] {
                let mut config = config_of(&sim, id, label, 0).expect("a config");
                change(&mut config);
                let at = [LABEL, second_label(MEMBER)][label];
                sim.poke(id, at, &config.encode().expect("it fits"));
                name = config.config_name().ok();
            }
        }
        rename_in_rings(&sim, &house, |uberblock| uberblock.config = name.expect("a name"));
        let bytes = |sim: &Sim| {
            let all = house.ids.iter().map(|&id| bytes_of(sim, id, 0, DATA_START as usize));
            all.collect::<Vec<_>>()
        };
        let before = bytes(&sim);
        for how in [How::ReadOnly, How::degraded(3)] {
            let opened = with(&sim, async |io| opened_as(io, &house, &house.ids, how).await);
            let why = opened.expect_err(expected).to_string();
            assert!(why.contains(expected), "{why}");
        }
        assert!(bytes(&sim) == before, "something was written");
    }
}

/// Labels that each tell of another end: only what the first one tells is looked at.
#[test]
fn labels_that_lead_from_one_to_the_next_are_not_followed() {
    const LABELS: u64 = 60;
    let (small, house) = built(Kind::Plain(1), 16);
    let config = config_of(&small, house.ids[0], 0, 0).expect("a config");
    let sim = Sim::new(16);
    let end = |n: u64| MEMBER + n * (1 << 20);
    let id = sim.add_blank_drive(Model::sata_ssd(), end(LABELS) + (8 << 20));
    let mut at = LABEL;
    for n in 0..LABELS {
        let mut told = config.clone();
        told.members[0].size = end(n);
        sim.poke(id, at, &told.encode().expect("it fits"));
        at = second_label(end(n));
    }
    let before = sim.moved(id)[0];
    let looked = with(&sim, async |io| look(io, "long", id).await).expect("it has a label");
    assert!(looked.configs.len() <= 3, "{}", looked.configs.len());
    let read = sim.moved(id)[0] - before;
    assert!(read <= 4 * (224 << 10), "{read} bytes were read");
    assert!(matches!(choose(&[looked], None), Err(PoolOpenError::NoUberblock)));
    const { assert!(CONFIG_BYTES.is_multiple_of(BLOCK)) };
}
