//! A disk and its initiators: who gives it (1 byte), CDB (16), and as many bytes of parameters as that asks for.

use brindle_export::scsi::reservation::{Nexus, Reservations};
use brindle_export::scsi::{Action, CDB, Identity, Shape, Unit, Units};

use crate::feed::Feed;

struct One(Identity);

impl Units for One {
    fn find(&self, is_it: &dyn Fn(&Identity) -> bool) -> Option<(usize, u32)> {
        is_it(&self.0).then_some((0, 512))
    }
    fn luns(&self) -> Vec<u64> {
        vec![0]
    }
    fn ports(&self) -> Vec<u16> {
        vec![1, 2]
    }
}

const SHAPE: Shape = Shape {
    size: 64 << 20,
    block: 512,
    preferred: 4096,
    optimal: 0,
    most: 1 << 20,
    read_only: false,
    unmaps: true,
    rotates: true,
};

/// Each action lies within the disk, and is no more than it says that it does at once.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let identity = Identity { uuid: [7; 16], product: "disk".to_owned(), target: "iqn.t".to_owned() };
    let units = One(identity.clone());
    let mut unit = Unit::new(identity, SHAPE, Reservations::default());
    let nexus = |n: u8| Nexus {
        initiator: format!("iqn.{n},i,0x1"),
        port: 1,
        owner: (n % 2 == 1).then(|| format!("n{n}")),
    };
    (0..3).for_each(|n| unit.arrived(&nexus(n)));
    while !feed.is_empty() {
        let by = nexus(feed.u8() % 3);
        let mut cdb = [0; CDB];
        cdb.iter_mut().for_each(|byte| *byte = feed.u8());
        let mut action = unit.plan(&by, &cdb, &units);
        if let Action::Parameters { len, ref command } = action {
            let mut list = feed.bytes(len.min(4096)).to_vec();
            list.resize(len, 0);
            action = unit.parameters(&by, &command.clone(), &list, &units);
        }
        check(&action);
        if let Action::Reserve { action, kind, parameters } = action
            && let Ok((next, effects)) = unit.change(&by, action, kind, &parameters)
        {
            if let Some(kept) = next.to_file_text() {
                assert!(Reservations::from_file_text(&kept).is_ok(), "{kept}");
            }
            unit.changed(next, &effects);
        }
    }
}

fn check(action: &Action) {
    let within = |offset: u64, len: u64| offset.checked_add(len).is_some_and(|end| end <= SHAPE.size);
    match *action {
        Action::Read { offset, len }
        | Action::Write { offset, len, .. }
        | Action::OrWrite { offset, len, .. }
        | Action::CompareAndWrite { offset, len, .. } => {
            assert!(within(offset, len) && len <= SHAPE.most, "{action:?}");
        }
        Action::Verify { offset, len, sent } => assert!(within(offset, len) && sent <= SHAPE.most),
        Action::WriteSame { offset, len, .. } => assert!(within(offset, len)),
        Action::Discard(ref ranges) => assert!(ranges.iter().all(|&(offset, len)| within(offset, len))),
        Action::Allocation { offset, .. } => assert!(offset < SHAPE.size),
        _ => {}
    }
    assert!(action.data_out() <= 2 * SHAPE.most);
}
