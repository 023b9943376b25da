//! The part of fio's JSON that a direction has.

use serde_json::{Map, Value, json};

use crate::job::Job;
use crate::measure::{Latency, Tally};

/// `read`, `write`, `trim` or `mixed`.
pub(super) fn direction(tally: &Tally, job: &Job, bins: bool) -> Value {
    let [slat, clat, lat] = [
        (&tally.submission, job.slat_percentiles),
        (&tally.completion, job.clat_percentiles),
        (&tally.total, job.lat_percentiles),
    ]
    .map(|(latency, wanted)| latencies(latency, wanted.then_some(&job.percentiles), bins));
    let bandwidth = tally.series.spread(tally.runtime, |bin| bin.bytes);
    let iops = tally.series.spread(tally.runtime, |bin| bin.ios);
    let kib = |bytes: f64| bytes / 1024.0;
    json!({
        "io_bytes": tally.bytes,
        "io_kbytes": tally.bytes >> 10,
        "bw_bytes": tally.bandwidth() as u64,
        "bw": kib(tally.bandwidth()) as u64,
        "iops": tally.iops(),
        "runtime": tally.runtime.as_millis() as u64,
        "total_ios": tally.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": slat,
        "clat_ns": clat,
        "lat_ns": lat,
        "bw_min": kib(bandwidth.min) as u64,
        "bw_max": kib(bandwidth.max) as u64,
        "bw_agg": if bandwidth.samples > 0 { 100.0 } else { 0.0 },
        "bw_mean": kib(bandwidth.mean),
        "bw_dev": kib(bandwidth.deviation),
        "bw_samples": bandwidth.samples,
        "iops_min": iops.min as u64,
        "iops_max": iops.max as u64,
        "iops_mean": iops.mean,
        "iops_stddev": iops.deviation,
        "iops_samples": iops.samples,
    })
}

/// `slat_ns` and its like; percentiles only where there was anything.
pub(super) fn latencies(latency: &Latency, percentiles: Option<&Vec<f64>>, bins: bool) -> Value {
    let mut all = json!({
        "min": latency.min(),
        "max": latency.max(),
        "mean": latency.mean(),
        "stddev": latency.deviation(),
        "N": latency.count(),
    });
    let Some(percentiles) = percentiles.filter(|_| latency.count() > 0) else { return all };
    let each = percentiles.iter().map(|of| (format!("{of:.6}"), Value::from(latency.percentile(*of))));
    all["percentile"] = Value::Object(each.collect::<Map<_, _>>());
    if bins {
        let each = latency.bins().into_iter().map(|(middle, count)| (middle.to_string(), Value::from(count)));
        all["bins"] = Value::Object(each.collect::<Map<_, _>>());
    }
    all
}
