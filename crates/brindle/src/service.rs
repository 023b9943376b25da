//! A served array as the control socket sees it: its report, and what can be asked of it.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use brindle_array::assembly::Limitation;
use brindle_array::{Array, Detail, DeviceDetail, DeviceState, RoleDetail, RoleState, Volume};
use brindle_export::nbd;
use brindle_io::sync::Event;
use serde_json::json;

use crate::control::{Answer, Request};
use crate::report::{ArrayReport, left_out};
use crate::world::Running;

/// What the control side can reach, on the reactor's thread.
pub(crate) struct Service {
    pub(crate) array: Array,
    pub(crate) server: nbd::Server<Array>,
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
    /// Devices by role, as they were named.
    paths: Vec<Option<String>>,
    static_report: serde_json::Value,
    stopping: Cell<bool>,
    stop: Event,
}

impl Service {
    pub(crate) fn new(
        running: &Running,
        server: nbd::Server<Array>,
        name: String,
        addresses: Vec<String>,
    ) -> Self {
        let assembly = &running.assembly;
        let label = |device: usize| assembly.devices.get(device).map(|device| device.label.clone());
        Self {
            array: running.array.clone(),
            server,
            name,
            addresses,
            paths: assembly.roles.iter().map(|device| device.and_then(label)).collect(),
            static_report: serde_json::to_value(ArrayReport::of(assembly)).unwrap_or_default(),
            stopping: Cell::new(false),
            stop: Event::new(&running.world.io),
        }
    }

    pub(crate) fn begin_stop(self: &Rc<Self>) {
        self.stopping.set(true);
        self.stop.notify();
    }

    pub(crate) async fn told_to_stop(&self) {
        self.stop.until(|| self.stopping.get().then_some(())).await;
    }

    /// What became of the array, for people.
    pub(crate) fn last_words(&self) -> &'static str {
        if self.array.limits().read_only {
            "stopped, nothing was written"
        } else if self.array.needs_resync() {
            "stopped; the resync goes on when it is served again"
        } else if self.array.detail().limits.iter().any(|limit| limit.forced_from().is_some()) {
            // Clean only if something was written.
            "stopped"
        } else {
            "stopped, marked clean"
        }
    }

    pub(crate) async fn answer(self: Rc<Self>, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Ok(self.report()),
            Request::Fail { member } => self.fail(&member).await,
            Request::Stop => {
                self.begin_stop();
                Answer::Ok(json!({"name": self.name, "stopped": true}))
            }
        }
    }

    async fn fail(&self, member: &str) -> Answer {
        let Some(role) = self.role_of(member) else {
            let known: Vec<&str> = self.paths.iter().flatten().map(String::as_str).collect();
            return Answer::Error(format!(
                "{member} is no member of {}: it has {}",
                self.name,
                known.join(", ")
            ));
        };
        match self.array.fail(role as u16).await {
            Ok(()) => Answer::Ok(self.report()),
            Err(error) => Answer::Error(format!("{member} stays in service: {error}")),
        }
    }

    /// By the name that `serve` was given, by the role's number, or by another name of the same file.
    fn role_of(&self, member: &str) -> Option<usize> {
        let named = |path: &Option<String>| path.as_deref() == Some(member);
        let same = |member: PathBuf| {
            let is = |path: &String| std::fs::canonicalize(path).is_ok_and(|path| path == member);
            self.paths.iter().position(|path| path.as_ref().is_some_and(is))
        };
        let number = || member.parse::<usize>().ok().filter(|&role| role < self.paths.len());
        self.paths
            .iter()
            .position(named)
            .or_else(number)
            .or_else(|| std::fs::canonicalize(member).ok().and_then(same))
    }

    /// `brindle status --json`.
    fn report(&self) -> serde_json::Value {
        let detail = self.array.detail();
        let mut array = self.static_report.clone();
        if let Some(fields) = array.as_object_mut() {
            let devices: Vec<_> = detail.devices.iter().map(device_report).collect();
            fields.insert("state".into(), json!(state_words(&detail)));
            fields.insert("missing".into(), json!(missing(&detail)));
            fields.insert("events".into(), json!(detail.events));
            fields.insert("devices".into(), json!(devices));
            fields.insert("resync_offset".into(), json!(detail.resync_offset));
            fields.insert("sync".into(), json!(self.sync_report(detail.resync_offset)));
        }
        let total = self.server.export_stats().into_iter().next();
        let counters = total.as_ref().map(|stats| stats.total).unwrap_or_default();
        json!({
            "name": self.name,
            "pid": std::process::id(),
            "nbd": self.addresses,
            "array": array,
            "connections": total.map_or(0, |stats| stats.connections),
            "requests": counters.requests,
            "bytes_read": counters.read_bytes,
            "bytes_written": counters.written_bytes,
            "errors": counters.errors,
        })
    }

    fn sync_report(&self, position: Option<u64>) -> Option<serde_json::Value> {
        let (position, total) = (position?, self.array.sync_len());
        let percent = position.min(total) as f64 * 100.0 / total.max(1) as f64;
        Some(json!({"position": position, "total": total, "percent": percent}))
    }
}

/// The words of `detail`, with those that only a running array can say.
fn state_words(detail: &Detail) -> Vec<&'static str> {
    let in_doubt = detail.resync_offset.is_some();
    let first = match (detail.broken, detail.active || in_doubt) {
        (true, _) => "broken",
        (false, true) => "active",
        (false, false) => "clean",
    };
    let resync = if detail.read_only { "needs resync" } else { "resyncing" };
    let reshaping = detail.limits.iter().any(|limit| matches!(limit, Limitation::Reshape { .. }));
    let also = [
        (detail.degraded > 0, "degraded"),
        (in_doubt, resync),
        (reshaping, "reshaping"),
        (detail.read_only, "read-only"),
    ];
    std::iter::once(first).chain(also.into_iter().filter_map(|(on, word)| on.then_some(word))).collect()
}

/// Roles without a member that works.
fn missing(detail: &Detail) -> Vec<u16> {
    let gone = |role: &RoleDetail| matches!(role.state, RoleState::Missing | RoleState::Failed);
    (0..).zip(&detail.roles).filter_map(|(role, state)| gone(state).then_some(role)).collect()
}

fn device_report(device: &DeviceDetail) -> serde_json::Value {
    let state = match device.state {
        DeviceState::InSync => "in-sync",
        DeviceState::Recovering { .. } => "recovering",
        DeviceState::Failed => "failed",
        DeviceState::Spare => "spare",
        DeviceState::Journal => "journal",
        DeviceState::LeftOut(why) => left_out(why),
    };
    json!({"role": device.role, "path": device.label, "state": state})
}
