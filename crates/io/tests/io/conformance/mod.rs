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
            $(#[test] fn $as() { super::stage::<$world>($test); })*
        }
    };
}

macro_rules! worlds {
    ($($name:ident: $world:ty),*) => { $(
        conformance!(
            $name,
            $world,
            super::members::groups_write_and_read_back as groups_write_and_read_back,
            super::members::every_class_is_carried_out as every_class_is_carried_out,
            super::members::any_count_of_blocks_at_any_place as any_count_of_blocks_at_any_place,
            super::members::many_stretches_are_one_operation as many_stretches_are_one_operation,
            super::members::the_largest_buffer_moves_whole as the_largest_buffer_moves_whole,
            super::members::zeroed_ranges_read_as_zeroes as zeroed_ranges_read_as_zeroes,
            super::members::a_discard_leaves_the_rest_alone as a_discard_leaves_the_rest_alone,
            super::members::beyond_the_end_is_an_error as beyond_the_end_is_an_error,
            super::members::a_probe_tells_size_and_place as a_probe_tells_size_and_place,
            super::members::holes_are_told_where_nothing_was_written as holes_are_told_where_nothing_was_written,
            super::members::a_closed_member_is_gone as a_closed_member_is_gone,
            super::members::thousands_in_flight as thousands_in_flight,
            super::members::dropped_futures_give_their_memory_back as dropped_futures_give_their_memory_back,
            super::memory_of::a_pool_ends_with_its_last_buffer as a_pool_ends_with_its_last_buffer,
            super::memory_of::a_pool_ends_with_its_last_operation as a_pool_ends_with_its_last_operation,
            super::memory_of::huge_pages_carry_requests_or_are_refused_at_once as huge_pages_carry_requests_or_are_refused_at_once,
            super::memory_of::pools_take_what_they_need as pools_take_what_they_need,
            super::memory_of::pools_give_back_what_nobody_needs as pools_give_back_what_nobody_needs,
            super::given::given_memory_is_read_and_filled_where_it_is as given_memory_is_read_and_filled_where_it_is,
            super::given::given_memory_is_not_looked_at as given_memory_is_not_looked_at,
            super::given::given_memory_is_refused_that_could_go_or_does_not_fit as given_memory_is_refused_that_could_go_or_does_not_fit,
            super::given::given_memory_ends_with_its_last_operation as given_memory_ends_with_its_last_operation,
            super::given::given_memory_comes_and_goes as given_memory_comes_and_goes,
            super::given::given_memory_is_sent_and_received as given_memory_is_sent_and_received,
            super::members::an_executor_ends_with_operations_in_flight as an_executor_ends_with_operations_in_flight,
            super::sockets::both_directions_at_once as both_directions_at_once,
            super::sockets::the_other_end_goes_away as the_other_end_goes_away,
            super::sockets::closing_ends_what_waits as closing_ends_what_waits,
            super::sockets::a_closed_socket_is_not_another as a_closed_socket_is_not_another,
            super::sockets::what_the_other_end_has_not_taken as what_the_other_end_has_not_taken,
            super::sockets::ports_keep_messages_whole as ports_keep_messages_whole,
            super::sockets::a_closed_port_ends_what_waits as a_closed_port_ends_what_waits,
            super::tasks::timers_fire_in_order as timers_fire_in_order,
            super::tasks::a_reactor_has_one_executor as a_reactor_has_one_executor,
            super::tasks::shutdown_with_everything_under_way as shutdown_with_everything_under_way,
        );
    )* };
}

worlds!(
    memory: brindle_io::memory::Memory,
    sim: brindle_io::sim::Sim,
    uring_files: super::worlds::Files,
    uring_loops: super::worlds::Loops,
    threads_files: super::worlds::OnThreads<super::worlds::Files>,
    threads_loops: super::worlds::OnThreads<super::worlds::Loops>,
    emulated: super::worlds::Drives
);

/// Disks that are pulled: of real ones only loop devices.
mod pulled {
    use super::members::a_pulled_member_is_gone_not_full;
    use super::stage;
    use super::worlds::{Loops, OnThreads};

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
        stage::<OnThreads<Loops>>(a_pulled_member_is_gone_not_full);
    }
}

/// Real members are not at our command.
mod at_command {
    use brindle_io::memory::Memory;
    use brindle_io::sim::Sim;

    #[test]
    fn short_transfers_in_memory() {
        super::stage::<Memory>(super::members::short_transfers_are_carried_on);
    }
    #[test]
    fn short_transfers_in_the_sim() {
        super::stage::<Sim>(super::members::short_transfers_are_carried_on);
    }
    #[test]
    fn hanging_in_memory() {
        super::stage::<Memory>(super::members::a_member_that_hangs_keeps_only_its_own);
    }
    #[test]
    fn hanging_in_the_sim() {
        super::stage::<Sim>(super::members::a_member_that_hangs_keeps_only_its_own);
    }
    #[test]
    fn given_to_a_forsaken_member_in_memory() {
        super::stage::<Memory>(super::given::given_memory_of_a_forsaken_member_stays);
    }
    #[test]
    fn given_to_a_forsaken_member_in_the_sim() {
        super::stage::<Sim>(super::given::given_memory_of_a_forsaken_member_stays);
    }
    #[test]
    fn changes_in_memory() {
        super::stage::<Memory>(super::members::changes_under_way_are_known);
    }
    #[test]
    fn changes_in_the_sim() {
        super::stage::<Sim>(super::members::changes_under_way_are_known);
    }
    #[test]
    fn misaligned_in_memory() {
        super::misaligned::<Memory>();
    }
    #[test]
    fn misaligned_in_the_sim() {
        super::misaligned::<Sim>();
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
        super::stage::<brindle_io::memory::Memory>(super::tasks::other_threads_hand_work_in);
    }
    #[test]
    fn uring() {
        super::stage::<super::worlds::Files>(super::tasks::other_threads_hand_work_in);
    }
}
