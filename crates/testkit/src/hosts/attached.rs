//! Orders to make and end devices of the kernel, beside each other, in any mood of the kernel; and servers that take over from others.
//!
//! Of each array there is one device at most: one that was made and neither ended nor stopped is there, and the server tells of it.

use std::cell::RefCell;
use std::pin::Pin;

use brindle_format::md::display_uuid;
use brindle_host::control::{Ask, Request};
use brindle_host::status::Report;
use brindle_host::{Order, RequestOutcome};
use brindle_io::Duration;
use brindle_io::sync::join_all;

use super::kernel::Mood;
use super::{Broken, HostedArray, Hosts, Running};
use crate::random::Random;
use crate::storm::Scene;

/// Time in which a server has to give devices new connections: its last try is after six seconds.
const RECLAIMED: u64 = 20;

/// Orders to make or end a device that are given at once.
const MOST: u64 = 3;

impl HostedArray {
    /// The word by which its devices are found.
    pub(super) fn key(&self) -> String {
        format!("brindle:{}", display_uuid(self.uuid))
    }
}

impl Hosts {
    /// Devices of an array are made and ended, several orders at once: as many as were made and not ended are there.
    pub(super) async fn change_devices(
        &self,
        kept: &HostedArray,
        open: &Running,
        random: &mut Random,
    ) -> Result<(), Broken> {
        if random.one_in(4) {
            return self.lose_device(kept, open).await;
        }
        open.kernel.set_mood(mood(random));
        let before = open.kernel.numbers(&kept.key()).len();
        let orders: Vec<Request> = (0..1 + random.below(MOST)).map(|_| order(kept, open, random)).collect();
        let service = open.service();
        let answers = join_all(orders.into_iter().map(|order| service.ask(order))).await;
        open.kernel.set_mood(Mood::default());
        let (mut made, mut ended) = (0, 0);
        for answer in &answers {
            match answer {
                Ok(RequestOutcome::Attached { .. }) => made += 1,
                Ok(RequestOutcome::Detached { .. }) => ended += 1,
                Ok(_) => {}
                Err(why) => {
                    self.note(if why.to_string().contains("in use") { "in-use" } else { "not-attached" });
                }
            }
        }
        self.note_some("attached", made);
        self.note_some("detached", ended);
        let now = open.kernel.numbers(&kept.key()).len();
        if before + made != now + ended {
            let why = format!("{before} devices were there, {made} made, {ended} ended: {now}; {answers:?}");
            return Err(Broken::Devices(kept.name, why));
        }
        self.judge_devices(open)
    }

    /// Does something beside an order for the device of an array, and gives both answers. The kernel is late, but not too late.
    pub(super) async fn beside_a_device<T>(
        &self,
        kept: &HostedArray,
        open: &Running,
        random: &mut Random,
        work: impl Future<Output = T>,
    ) -> T {
        let late = Duration::from_millis(if random.one_in(2) { random.below(2_000) } else { 0 });
        open.kernel.set_mood(Mood { delay: late, is_full: false });
        let (order, service, done) = (order(kept, open, random), open.service(), RefCell::new(None));
        let both: [Pin<Box<dyn Future<Output = ()> + '_>>; 2] = [
            Box::pin(async { drop(service.ask(order).await) }),
            Box::pin(async { drop(done.replace(Some(work.await))) }),
        ];
        join_all(both).await;
        open.kernel.set_mood(Mood::default());
        done.into_inner().expect("it is done")
    }

    /// Another program ends a device that nobody uses. The next order for it finds out.
    async fn lose_device(&self, kept: &HostedArray, open: &Running) -> Result<(), Broken> {
        let Some(&index) = open.kernel.numbers(&kept.key()).first() else { return Ok(()) };
        if open.kernel.is_held(index) {
            return Ok(());
        }
        open.kernel.dies(index);
        self.note("device-died");
        let made = open.service().ask(attach(kept)).await;
        made.map_err(|why| Broken::Order("attach", why.into()))?;
        self.judge_devices(open)
    }

    /// Each device is of one array, and its server tells of it; it tells of no others.
    pub(super) fn judge_devices(&self, open: &Running) -> Result<(), Broken> {
        let status = open.service().status();
        for kept in &self.arrays {
            let there = open.kernel.numbers(&kept.key());
            let there: Vec<String> = there.iter().map(|index| format!("/dev/nbd{index}")).collect();
            let own = status.all().iter().filter(|report| report.name() == kept.name);
            let reported: Vec<String> = own.filter_map(device_of).collect();
            if there.len() > 1 || there != reported {
                let why = format!("there are {there:?}, and the server tells of {reported:?}");
                return Err(Broken::Devices(kept.name, why));
            }
        }
        Ok(())
    }

    /// The server ends as one does that hands over, and another takes its place: it gives the devices new connections.
    pub(super) async fn hand_over(&self, open: &Running, scene: &Scene) -> Result<(), Broken> {
        let old = open.service();
        old.take(Order::HandOver);
        old.stop_all().await.map_err(|why| Broken::Order("hand over", why.into()))?;
        open.drives.close_all();
        self.serve(open, scene).await?;
        drop(scene.io.spawn(open.service().attach_again()));
        for kept in &self.arrays {
            let Some(&index) = open.kernel.numbers(&kept.key()).first() else { continue };
            let mut waited = 0;
            while !open.kernel.is_connected(index) || self.judge_devices(open).is_err() {
                waited += 1;
                if waited > RECLAIMED {
                    self.judge_devices(open)?;
                    return Err(Broken::Devices(kept.name, "it is not reclaimed".to_owned()));
                }
                scene.io.sleep(Duration::from_secs(1)).await;
            }
            self.note("reclaimed");
        }
        Ok(())
    }
}

fn device_of(report: &Report) -> Option<String> {
    match report {
        Report::Array(array) => array.device.clone(),
        Report::Pool(_) | Report::Absent(_) | Report::Other(_) => None,
    }
}

fn attach(kept: &HostedArray) -> Request {
    Ask::Attach { index: None, connections: 2, dead_timeout: 60 }.of(kept.name.to_owned())
}

/// Mostly an order that can be carried out.
fn order(kept: &HostedArray, open: &Running, random: &mut Random) -> Request {
    let is_there = !open.kernel.numbers(&kept.key()).is_empty();
    let detaches = if random.one_in(4) { !is_there } else { is_there };
    if detaches { Ask::Detach.of(kept.name.to_owned()) } else { attach(kept) }
}

/// Mostly at once; sometimes so late that a server gives up, or with a refusal.
fn mood(random: &mut Random) -> Mood {
    let late = if random.one_in(3) { random.below(8_000) } else { random.below(50) };
    let delay = if random.one_in(2) { Duration::from_millis(late) } else { Duration::default() };
    Mood { delay, is_full: random.one_in(6) }
}
