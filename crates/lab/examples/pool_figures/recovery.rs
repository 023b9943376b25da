//! Opening after a power cut, with as many changes in the log as there may be.

use crate::load::{Kind, closed, fill};
use crate::table::{Limit, head, line};
use crate::world::{Scale, Stage, opened};

/// Prints the table.
pub(crate) fn print(live: u64) {
    head("Recovery after a power cut, raidz2 of twelve drives");
    for (drive, limit) in [("p3700", 2.0), ("nvme", 2.0), ("hdd-7200", 30.0)] {
        // As many changes as there are blocks, so that none is in the map.
        let scale = Scale { changes: 1, drive, ..Scale::of(live, 40) };
        let stage = Stage::new(&scale);
        fill(&stage.io, &stage.volume, 16);
        stage.io.block_on(stage.pool.checkpoint()).expect("drives that are well");
        let changes = stage.blocks * 9 / 10;
        let volumes = core::slice::from_ref(&stage.volume);
        closed(&stage.io, volumes, Kind::Write, 512, changes, 3);
        stage.io.block_on(stage.pool.flush()).expect("drives that are well");
        let checkpoint = stage.pool.status().checkpoint;
        let (_sim, io, ids, config) = stage.cut();
        let began = io.now();
        let pool = io.block_on(opened(&io, &ids, 9, config));
        let took = io.now().since(began).as_secs_f64();
        let read: u64 = ids.iter().map(|id| io.counters(*id).bytes_read).sum();
        let written: u64 = ids.iter().map(|id| io.counters(*id).bytes_written).sum();
        // Two checkpoints belong to an opening.
        let others = pool.status().checkpoint.saturating_sub(checkpoint + 2);
        let million = took * f64::from(1 << 20) / changes as f64;
        let why = format!(
            "{changes} changes took {took:.2} s, {:.2} GiB read and {:.2} written, {others} checkpoints of others",
            read as f64 / f64::from(1 << 30),
            written as f64 / f64::from(1 << 30)
        );
        line(&format!("{drive}, for 1 Mi changes"), Limit::Most(limit), million, " s", &why);
        drop(pool);
        io.shutdown();
    }
}
