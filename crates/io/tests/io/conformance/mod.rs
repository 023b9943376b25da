//! One suite that every reactor passes: only the constructor differs.

mod given;
mod members;
mod memory_of;
mod sockets;
mod tasks;
mod worlds;

use brindle_io::{Duration, Io, Pool};
use brindle_testkit::skip::or_skip;
use worlds::World;

/// A world with its executor and 64 MiB of buffers.
struct Stage<W> {
    io: Io,
    pool: Pool,
    world: W,
}

/// Runs a test in a world, and then sees to it that nothing is left.
fn stage<W: World>(test: impl FnOnce(&Stage<W>)) {
    let Some(world) = or_skip(W::new()) else { return };
    let io = Io::new(world.reactor());
    // No device here is silent for ever: a busy machine may take its time.
    io.set_grace(Duration::from_millis(60_000));
    let stage = Stage { pool: io.pool(64 << 20), io, world };
    test(&stage);
    stage.io.shutdown();
    assert_eq!((stage.io.in_flight(), stage.io.tasks_alive()), (0, 0));
    assert_eq!(stage.pool.free_bytes(), 64 << 20, "all memory came back");
}

macro_rules! conformance {
    ($name:ident, $world:ty, $($test:path as $as:ident),* $(,)?) => {
        mod $name {
            $(#[test] fn $as() { crate::conformance::stage::<$world>($test); })*
        }
    };
}

macro_rules! worlds {
    ($($name:ident: $world:ty),*) => { $(
        conformance!(
            $name,
            $world,
            crate::conformance::members::groups_write_and_read_back as groups_write_and_read_back,
            crate::conformance::members::every_class_is_carried_out as every_class_is_carried_out,
            crate::conformance::members::any_count_of_blocks_at_any_place as any_count_of_blocks_at_any_place,
            crate::conformance::members::many_stretches_are_one_operation as many_stretches_are_one_operation,
            crate::conformance::members::the_largest_buffer_moves_whole as the_largest_buffer_moves_whole,
            crate::conformance::members::zeroed_ranges_read_as_zeroes as zeroed_ranges_read_as_zeroes,
            crate::conformance::members::a_discard_leaves_the_rest_alone as a_discard_leaves_the_rest_alone,
            crate::conformance::members::beyond_the_end_is_an_error as beyond_the_end_is_an_error,
            crate::conformance::members::a_probe_tells_size_and_place as a_probe_tells_size_and_place,
            crate::conformance::members::holes_are_told_where_nothing_was_written as holes_are_told_where_nothing_was_written,
            crate::conformance::members::a_closed_member_is_gone as a_closed_member_is_gone,
            crate::conformance::members::thousands_in_flight as thousands_in_flight,
            crate::conformance::members::dropped_futures_give_their_memory_back as dropped_futures_give_their_memory_back,
            crate::conformance::memory_of::a_pool_ends_with_its_last_buffer as a_pool_ends_with_its_last_buffer,
            crate::conformance::memory_of::a_pool_ends_with_its_last_operation as a_pool_ends_with_its_last_operation,
            crate::conformance::memory_of::huge_pages_carry_requests_or_are_refused_at_once as huge_pages_carry_requests_or_are_refused_at_once,
            crate::conformance::memory_of::pools_take_what_they_need as pools_take_what_they_need,
            crate::conformance::memory_of::pools_give_back_what_nobody_needs as pools_give_back_what_nobody_needs,
            crate::conformance::given::given_memory_is_read_and_filled_where_it_is as given_memory_is_read_and_filled_where_it_is,
            crate::conformance::given::given_memory_is_not_looked_at as given_memory_is_not_looked_at,
            crate::conformance::given::given_memory_is_refused_that_could_go_or_does_not_fit as given_memory_is_refused_that_could_go_or_does_not_fit,
            crate::conformance::given::given_memory_ends_with_its_last_operation as given_memory_ends_with_its_last_operation,
            crate::conformance::given::given_memory_comes_and_goes as given_memory_comes_and_goes,
            crate::conformance::given::given_memory_is_sent_and_received as given_memory_is_sent_and_received,
            crate::conformance::members::an_executor_ends_with_operations_in_flight as an_executor_ends_with_operations_in_flight,
            crate::conformance::sockets::both_directions_at_once as both_directions_at_once,
            crate::conformance::sockets::the_other_end_goes_away as the_other_end_goes_away,
            crate::conformance::sockets::closing_ends_what_waits as closing_ends_what_waits,
            crate::conformance::sockets::a_closed_socket_is_not_another as a_closed_socket_is_not_another,
            crate::conformance::sockets::what_the_other_end_has_not_taken as what_the_other_end_has_not_taken,
            crate::conformance::tasks::timers_fire_in_order as timers_fire_in_order,
            crate::conformance::tasks::a_reactor_has_one_executor as a_reactor_has_one_executor,
            crate::conformance::tasks::shutdown_with_everything_under_way as shutdown_with_everything_under_way,
        );
    )* };
}

worlds!(
    memory: brindle_io::memory::Memory,
    sim: brindle_io::sim::Sim,
    uring_files: crate::conformance::worlds::Files,
    uring_loops: crate::conformance::worlds::Loops,
    threads_files: crate::conformance::worlds::OnThreads,
    threads_loops: crate::conformance::worlds::LoopsOnThreads,
    emulated: crate::conformance::worlds::Drives
);

/// Disks that are pulled: of real ones only loop devices.
mod pulled {
    use crate::conformance::members::a_pulled_member_is_gone_not_full;
    use crate::conformance::stage;
    use crate::conformance::worlds::{Loops, LoopsOnThreads};

    #[test]
    fn memory() {
        stage::<brindle_io::memory::Memory>(a_pulled_member_is_gone_not_full);
    }
    #[test]
    fn sim() {
        stage::<brindle_io::sim::Sim>(a_pulled_member_is_gone_not_full);
    }
    #[test]
    fn uring_loops() {
        stage::<Loops>(a_pulled_member_is_gone_not_full);
    }
    #[test]
    fn threads_loops() {
        stage::<LoopsOnThreads>(a_pulled_member_is_gone_not_full);
    }
}

/// Real members are not at our command.
mod at_command {
    use brindle_io::memory::Memory;
    use brindle_io::sim::Sim;

    #[test]
    fn short_transfers_in_memory() {
        crate::conformance::stage::<Memory>(crate::conformance::members::short_transfers_are_carried_on);
    }
    #[test]
    fn short_transfers_in_the_sim() {
        crate::conformance::stage::<Sim>(crate::conformance::members::short_transfers_are_carried_on);
    }
    #[test]
    fn hanging_in_memory() {
        crate::conformance::stage::<Memory>(
            crate::conformance::members::a_member_that_hangs_keeps_only_its_own,
        );
    }
    #[test]
    fn hanging_in_the_sim() {
        crate::conformance::stage::<Sim>(crate::conformance::members::a_member_that_hangs_keeps_only_its_own);
    }
    #[test]
    fn given_to_a_forsaken_member_in_memory() {
        crate::conformance::stage::<Memory>(
            crate::conformance::given::given_memory_of_a_forsaken_member_stays,
        );
    }
    #[test]
    fn given_to_a_forsaken_member_in_the_sim() {
        crate::conformance::stage::<Sim>(crate::conformance::given::given_memory_of_a_forsaken_member_stays);
    }
    #[test]
    fn changes_in_memory() {
        crate::conformance::stage::<Memory>(crate::conformance::members::changes_under_way_are_known);
    }
    #[test]
    fn changes_in_the_sim() {
        crate::conformance::stage::<Sim>(crate::conformance::members::changes_under_way_are_known);
    }
    #[test]
    fn misaligned_in_memory() {
        crate::conformance::misaligned::<Memory>();
    }
    #[test]
    fn misaligned_in_the_sim() {
        crate::conformance::misaligned::<Sim>();
    }
}

/// An access that is not of whole logical blocks ends the run, and says where.
fn misaligned<W: worlds::AtCommand>() {
    for (offset, len) in [(512, 4096), (4096, 512), (0, 4608)] {
        let panicked = std::panic::catch_unwind(|| {
            stage::<W>(|stage| {
                let member = stage.world.member_of_blocks(1 << 20, 4096);
                let buf = stage.pool.try_alloc(8192).unwrap();
                let mut group = stage.io.group();
                group.write(member, offset, &buf.slice(0..len), false);
                drop(stage.io.block_on(group.submit()));
            });
        });
        let message = panicked.expect_err("it is a bug");
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("not aligned to logical blocks"), "{message}");
        assert!(
            message.contains(&format!("offset: {offset}")) && message.contains(&len.to_string()),
            "{message}"
        );
    }
}

/// The sim world has no other threads.
mod other_threads {
    #[test]
    fn memory() {
        crate::conformance::stage::<brindle_io::memory::Memory>(
            crate::conformance::tasks::other_threads_hand_work_in,
        );
    }
    #[test]
    fn uring() {
        crate::conformance::stage::<crate::conformance::worlds::Files>(
            crate::conformance::tasks::other_threads_hand_work_in,
        );
    }
}
