//! Reports of pools that are not served.

use brindle_host::status::{PoolFacts, VolumeFacts};
use serde::Serialize;

use super::Opened;
use crate::base::units::{Bytes, Moment};

/// The report that `brindle detail --json` prints of the members of a pool.
#[derive(Debug, Serialize)]
pub(crate) struct PoolReport {
    #[serde(flatten)]
    facts: PoolFacts,
    volumes: Vec<VolumeFacts>,
    /// Batches of the log that no checkpoint has yet.
    replayed: u64,
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize)]
struct LeftOut {
    path: String,
    why: String,
}

impl PoolReport {
    pub(crate) fn of(opened: &Opened) -> Self {
        let path = |member: u16| opened.members.get(usize::from(member)).cloned().flatten();
        Self {
            facts: PoolFacts::of(&opened.pool, path),
            volumes: VolumeFacts::all(&opened.pool),
            replayed: opened.recovered.batches,
            left_out: opened
                .left_out
                .iter()
                .map(|(path, why)| LeftOut { path: path.clone(), why: why.clone() })
                .collect(),
        }
    }

    pub(crate) fn facts(&self) -> &PoolFacts {
        &self.facts
    }

    /// Reasons why devices are left out.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = &str> {
        self.left_out.iter().map(|one| &*one.why)
    }

    pub(crate) fn volumes(&self) -> &[VolumeFacts] {
        &self.volumes
    }

    /// Whether some redundancy is missing.
    pub(crate) fn is_degraded(&self) -> bool {
        self.facts.is("degraded")
    }

    pub(crate) fn text(&self) -> String {
        let PoolFacts { name, uuid, state, capacity, sold, stored, devices, created, .. } = &self.facts;
        let mut text = format!(
            "{name}: pool {uuid}, {}\n  made {}; {} to be sold, {} sold, {} stored\n",
            state.join(", "),
            Moment(*created),
            Bytes(*capacity),
            Bytes(*sold),
            Bytes(*stored)
        );
        for device in devices {
            let path = device.path.as_deref().unwrap_or("-");
            text.push_str(&format!(
                "  {:>5}  {:<8}  {:<8}  {path}\n",
                device.member, device.kind, device.state
            ));
        }
        for volume in &self.volumes {
            text.push_str(&format!("  {name}/{}  {}\n", volume.name, Bytes(volume.size)));
        }
        text
    }
}
