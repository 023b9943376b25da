//! Models to TOML.

use core::fmt::Write;

use brindle_io::sim::{Curve, Path};

use super::Drive;

/// The text of a model, as [`super::parse`] reads it.
pub fn to_toml(drive: &Drive) -> String {
    let stations = &drive.stations;
    let mut text = String::new();
    let _ = writeln!(text, "name = {}", quoted(&drive.name));
    let _ = writeln!(text, "source = {}", quoted(&drive.source));
    let _ = writeln!(text, "size_gb = {}", decimal(drive.size, 1_000_000_000));
    let _ = writeln!(text, "units = {}", stations.units);
    let _ = writeln!(text, "flush_us = {}", decimal(stations.flush, 1000));
    let _ = writeln!(text, "volatile_cache = {}", stations.volatile_cache);
    if stations.uplink > 0 {
        let _ = writeln!(text, "uplink_mb_s = {}", decimal(stations.uplink, 1_000_000));
    }
    if let Some(fitted) = &drive.fitted {
        text.push_str("\n[fitted]\n");
        for (key, sizes) in [("one_in_flight_kib", fitted.one), ("many_in_flight_kib", fitted.many)] {
            if let Some((least, most)) = sizes {
                let _ = writeln!(text, "{key} = [{}, {}]", decimal(least, 1024), decimal(most, 1024));
            }
        }
    }
    path(&mut text, "read", &stations.read);
    path(&mut text, "write", &stations.write);
    for (reads, curve) in &stations.mixed {
        let points = points(curve, 1024, 10);
        let _ = write!(text, "\n[[mixed]]\nreads_percent = {reads}\noccupancy_percent = {points}\n");
    }
    if let Some(platter) = &stations.platter {
        let _ = write!(text, "\n[platter]\nseek_us = {}\n", points(&platter.seek, 10_000, 1000));
        let _ = writeln!(text, "rotation_us = {}", decimal(platter.rotation, 1000));
        let _ = writeln!(text, "outer_mb_s = {}", decimal(platter.outer, 1_000_000));
        let _ = writeln!(text, "inner_mb_s = {}", decimal(platter.inner, 1_000_000));
        let _ = writeln!(text, "queue = {}", platter.queue);
        let _ = writeln!(text, "cache_kib = {}", decimal(platter.cache, 1024));
        let _ = writeln!(text, "look_ahead_kib = {}", decimal(platter.look_ahead, 1024));
    }
    text
}

fn path(text: &mut String, name: &str, path: &Path) {
    let _ = write!(text, "\n[{name}]\nlatency_us = {}\n", points(&path.latency, 1024, 1000));
    if path.stream != path.latency {
        let _ = writeln!(text, "stream_us = {}", points(&path.stream, 1024, 1000));
    }
    let _ = writeln!(text, "occupancy_us = {}", points(&path.occupancy, 1024, 1000));
    if let Some(streamed) = &path.streamed {
        let _ = writeln!(text, "stream_occupancy_us = {}", points(streamed, 1024, 1000));
    }
    let _ = writeln!(text, "spread_percent = {}", path.spread);
}

fn points(curve: &Curve, x: u64, y: u64) -> String {
    let one = |point: &(u64, u64)| format!("[{}, {}]", decimal(point.0, x), decimal(point.1, y));
    format!("[{}]", curve.points().iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A string: JSON's escapes are TOML's too, which has one more character to be left out.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace('\u{7f}', "")).to_string()
}

/// A whole number of units, with a point for TOML.
fn decimal(value: u64, unit: u64) -> String {
    format!("{:?}", value as f64 / unit as f64)
}
