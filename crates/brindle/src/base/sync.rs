//! The process that runs over an array, as its server reports it: progress, speed, and time left. It comes over the
//! control socket, so anything may be missing.

use serde_json::Value;

/// How far something is, as `sync` in a report has it.
pub(crate) struct SyncReport<'a> {
    sync: &'a Value,
    pub(crate) position: u64,
    pub(crate) total: u64,
}

impl<'a> SyncReport<'a> {
    /// `None` if no process runs.
    pub(crate) fn of(sync: &'a Value) -> Option<Self> {
        let (position, total) = (sync["position"].as_u64()?, sync["total"].as_u64()?);
        Some(Self { sync, position: position.min(total), total })
    }

    /// The kind of the process: `recover`.
    pub(crate) fn action(&self) -> &'a str {
        self.sync["action"].as_str().unwrap_or("-")
    }

    /// The part that is done, at most 1.
    pub(crate) fn share(&self) -> f64 {
        self.position as f64 / self.total.max(1) as f64
    }

    /// The speed and the time left, as far as they are known: `, 4.0 MiB/s, 0:01:30 left`.
    pub(crate) fn pace(&self) -> String {
        if self.sync["paused"] == true {
            return ", paused".to_owned();
        }
        let speed = self.sync["speed"].as_u64().map(|speed| format!(", {}", bytes_per_second(speed as f64)));
        let left = self.sync["seconds_left"].as_u64().map(|seconds| format!(", {} left", span(seconds)));
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

fn span(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn speed_and_time_are_those_that_the_server_tells() {
        let text = |sync: Value| SyncReport::of(&sync).map(|sync| sync.text());
        let sync = json!({
            "action": "recover", "position": 134, "total": 1000, "paused": false, "speed": 4 << 20, "seconds_left": 3690,
        });
        assert_eq!(text(sync.clone()).as_deref(), Some("recover 13.4%, 4.0 MiB/s, 1:01:30 left"));
        let mut unknown = sync;
        unknown["speed"] = Value::Null;
        unknown["seconds_left"] = Value::Null;
        assert_eq!(text(unknown.clone()).as_deref(), Some("recover 13.4%"));
        unknown["paused"] = json!(true);
        assert_eq!(text(unknown).as_deref(), Some("recover 13.4%, paused"));
        assert_eq!(text(Value::Null), None);
        assert_eq!(text(json!({"position": 7, "total": 0})).as_deref(), Some("- 0.0%"));
    }
}
