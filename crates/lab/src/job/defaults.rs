//! Options that are not understood, but may state what fio does without them.

/// Each with fio's default, as `fio --cmdhelp` has it. An option without one has the value with which it does nothing.
pub const DEFAULTS: &[(&str, &str)] = &[
    ("bs_unaligned", "0"),
    ("cgroup_nodelete", "0"),
    ("cgroup_weight", "0"),
    ("create_only", "0"),
    ("dedupe_global", "0"),
    ("dedupe_mode", "repeat"),
    ("dedupe_working_set_percentage", "5"),
    ("disk_util", "1"),
    ("exit_what", "group"),
    ("exitall_on_error", "0"),
    ("experimental_verify", "0"),
    ("fdp", "0"),
    ("flow", "0"),
    ("flow_id", "0"),
    ("flow_sleep", "0"),
    ("force_async", "0"),
    ("ignore_zone_limits", "0"),
    ("job_max_open_zones", "0"),
    ("latency_percentile", "100"),
    ("latency_run", "0"),
    ("latency_target", "0"),
    ("latency_window", "0"),
    ("lockmem", "0"),
    ("log_alternate_epoch", "0"),
    ("log_alternate_epoch_clock_id", "0"),
    ("log_compression", "0"),
    ("log_entries", "1024"),
    ("log_hist_coarseness", "0"),
    ("log_hist_msec", "0"),
    ("log_max_value", "0"),
    ("log_store_compressed", "0"),
    ("max_latency", "0"),
    ("max_open_zones", "0"),
    ("md_per_io_size", "0"),
    ("num_range", "1"),
    ("offset_align", "0"),
    ("percentage_random", "100,100,100"),
    ("rate_cycle", "1000"),
    ("rate_ignore_thinktime", "0"),
    ("rate_iops_min", "0,0,0"),
    ("rate_min", "0,0,0"),
    ("rate_process", "linear"),
    ("read_beyond_wp", "0"),
    ("read_iolog_chunked", "0"),
    ("replay_no_stall", "0"),
    ("replay_scale", "1"),
    ("replay_time_scale", "100"),
    ("rw_sequencer", "sequential"),
    ("significant_figures", "4"),
    ("sprandom", "0"),
    ("steadystate_duration", "0"),
    ("steadystate_ramp_time", "0"),
    ("thinkcycles", "0"),
    ("thinktime_blocks_type", "complete"),
    ("thinktime_iotime", "0"),
    ("thinktime_spin", "0"),
    ("trim_backlog", "0"),
    ("trim_backlog_batch", "0"),
    ("trim_percentage", "0"),
    ("trim_verify_zero", "1"),
    ("verify_backlog", "0"),
    ("verify_backlog_batch", "0"),
    ("verify_header_seed", "1"),
    ("verify_only", "0"),
    ("verify_state_load", "0"),
    ("verify_write_sequence", "1"),
    ("write_barrier", "0"),
    ("write_hint", "none"),
    ("write_mode", "write"),
    ("zone_reset_frequency", "0"),
    ("zone_reset_threshold", "0"),
    ("zonecapacity", "0"),
    ("zonemode", "none"),
    ("zonerange", "0"),
    ("zonesize", "0"),
    ("zoneskip", "0"),
];

/// Whether the option only states fio's default. Of reads, writes and trims, where each has a value, fewer may be given than there are.
pub(super) fn is_stated(name: &str, value: Option<&str>) -> bool {
    let given: Vec<&str> = value.unwrap_or("1").split(',').map(str::trim).collect();
    DEFAULTS.iter().any(|(own, default)| {
        let defaults: Vec<&str> = default.split(',').collect();
        *own == name
            && given.len() <= defaults.len()
            && given.iter().zip(defaults).all(|(given, default)| is_same(given, default))
    })
}

/// Nothing is nothing in any unit.
fn is_same(value: &str, default: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let bare = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    value == default
        || number(value).is_some_and(|value| Some(value) == number(default))
        || number(default) == Some(0.0) && number(bare) == Some(0.0)
}
