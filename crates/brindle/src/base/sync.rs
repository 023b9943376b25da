//! The process that runs over an array, as its server reports it: progress, speed, and time left.

use brindle_host::status::SyncStatus;

/// How far something is, as `sync` in a report has it.
pub(crate) struct SyncReport<'a> {
    sync: &'a SyncStatus,
    pub(crate) position: u64,
    pub(crate) total: u64,
}

impl<'a> SyncReport<'a> {
    /// `None` if no process runs.
    pub(crate) fn of(sync: &'a Option<SyncStatus>) -> Option<Self> {
        let sync = sync.as_ref()?;
        Some(Self { sync, position: sync.position.min(sync.total), total: sync.total })
    }

    /// The kind of the process: `recover`.
    pub(crate) fn action(&self) -> &'a str {
        &self.sync.action
    }

    /// The part that is done, at most 1.
    pub(crate) fn share(&self) -> f64 {
        self.position as f64 / self.total.max(1) as f64
    }

    /// The speed and the time left, as far as they are known: `, 4.0 MiB/s, 0:01:30 left`.
    pub(crate) fn pace(&self) -> String {
        if self.sync.paused {
            return ", paused".to_owned();
        }
        let speed = self.sync.speed.map(|speed| format!(", {}", bytes_per_second(speed as f64)));
        let left = self.sync.seconds_left.map(|seconds| format!(", {} left", span(seconds)));
        speed.unwrap_or_default() + &left.unwrap_or_default()
    }

    /// The whole text: `recover 13.4%, 4.0 MiB/s, 0:01:30 left`.
    pub(crate) fn text(&self) -> String {
        format!("{} {:.1}%{}", self.action(), self.share() * 100.0, self.pace())
    }
}

/// A rate, short.
pub(crate) fn bytes_per_second(rate: f64) -> String {
    let bytes = rate as u64;
    match bytes {
        0..1024 => format!("{bytes} B/s"),
        _ => {
            let order = (bytes.ilog2() / 10).min(4);
            let unit = ["KiB", "MiB", "GiB", "TiB"][order as usize - 1];
            format!("{:.1} {unit}/s", bytes as f64 / (1u64 << (10 * order)) as f64)
        }
    }
}

/// Seconds as hours, minutes and seconds.
pub(crate) fn span(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_time_are_those_that_the_server_tells() {
        let text = |sync: SyncStatus| SyncReport::of(&Some(sync)).map(|sync| sync.text());
        let mut sync = SyncStatus {
            action: "recover".into(),
            position: 134,
            total: 1000,
            speed: Some(4 << 20),
            seconds_left: Some(3690),
            ..SyncStatus::default()
        };
        assert_eq!(text(sync.clone()).as_deref(), Some("recover 13.4%, 4.0 MiB/s, 1:01:30 left"));
        (sync.speed, sync.seconds_left) = (None, None);
        assert_eq!(text(sync.clone()).as_deref(), Some("recover 13.4%"));
        sync.paused = true;
        assert_eq!(text(sync.clone()).as_deref(), Some("recover 13.4%, paused"));
        (sync.position, sync.total) = (7, 0);
        assert_eq!(text(sync).as_deref(), Some("recover 0.0%, paused"));
        assert!(SyncReport::of(&None).is_none());
    }
}
