//! Members that come back to an array together: each is held against the record as it is before the first of them does.

use std::path::PathBuf;

use brindle_array::{AddError, Array, Joined};
use brindle_io::MemberId;
use serde_json::{Value, json};

use super::Service;
use super::newcomer::{Newcomer, joined};
use crate::control::{Answer, Reply};
use crate::exported::Exported;
use crate::failure::Failure;
use crate::world::World;

/// A device that is to come back: its number and its name.
pub(crate) type Again = (MemberId, String);

/// A device that is the member again that it was.
pub(crate) struct Back {
    pub(crate) label: String,
    pub(crate) role: u16,
    /// One that the array did not have: its file when all links are followed.
    came: Option<Option<PathBuf>>,
}

impl Back {
    /// What has become of it, for programs.
    pub(crate) fn told(&self) -> Value {
        joined(&self.label, &Joined::Member { role: self.role })
    }
}

/// Why not all devices that were named are back.
pub(crate) struct NotBack {
    pub(crate) why: Failure,
    /// Devices that were opened in vain.
    pub(crate) left: Vec<MemberId>,
}

/// Takes devices again as far as that is possible, and gives for each its role, or why not.
pub(crate) async fn take_each_again(array: &Array, devices: &[Again]) -> Vec<Result<u16, AddError>> {
    let mut all = array.judge_together(devices).await.into_iter();
    let mut done = Vec::with_capacity(devices.len());
    for (id, label) in devices {
        done.push(match all.next() {
            Some(Err(why)) => Err(why),
            _ => array.add_again(*id, label).await,
        });
    }
    done
}

impl World {
    /// Takes devices into an array again that were named together: those that it has and does not use, and newcomers. None comes back
    /// if one of them can't.
    pub(crate) async fn take_all_again(
        &self,
        array: &Array,
        known: Vec<Again>,
        newcomers: Vec<Newcomer>,
    ) -> (Vec<Back>, Option<NotBack>) {
        let mut files = vec![None; known.len()];
        let (mut devices, mut left) = (known, Vec::new());
        for newcomer in newcomers {
            files.push(Some(newcomer.file()));
            let path = PathBuf::from(newcomer.label());
            match self.take(&path, newcomer.seen) {
                Ok(named) => {
                    left.push(named.id);
                    devices.push((named.id, named.label));
                }
                Err(why) => return (Vec::new(), Some(NotBack { why, left })),
            }
        }
        let judged = array.judge_together(&devices).await;
        if let Some(why) = judged.into_iter().find_map(Result::err) {
            return (Vec::new(), Some(NotBack { why: Failure::Add(why), left }));
        }
        let mut back = Vec::with_capacity(devices.len());
        for ((id, label), came) in devices.into_iter().zip(files) {
            match array.add_again(id, &label).await {
                Ok(role) => {
                    left.retain(|other| *other != id);
                    back.push(Back { label, role, came });
                }
                Err(why) => return (back, Some(NotBack { why: Failure::Add(why), left })),
            }
        }
        (back, None)
    }
}

impl Service {
    /// Takes devices again that a command named together.
    pub(super) async fn take_again_those_named(
        &self,
        array: &Exported,
        known: Vec<Again>,
        newcomers: Vec<Newcomer>,
        reply: Reply,
    ) {
        let engine = &array.hosted.array;
        let (back, not) = self.host.world.take_all_again(engine, known, newcomers).await;
        for device in &back {
            if let Some(file) = &device.came {
                array.came(&device.label, file.clone());
            }
        }
        let labels: Vec<&str> = back.iter().map(|device| device.label.as_str()).collect();
        if let Some(NotBack { why, left }) = not {
            let before = match &labels[..] {
                [] => String::new(),
                labels => format!("; {} has been added", labels.join(", ")),
            };
            self.publish();
            return self.free(&left, reply, Answer::Error(format!("{why}{before}")));
        }
        self.publish();
        let mut report = self.report_of(array);
        report["added"] = json!(labels);
        report["joined"] = back.iter().map(Back::told).collect();
        reply.send(Answer::Ok(report));
    }
}
