use super::*;
use brindle_io::memory::Memory;

fn device(number: u32) -> Option<Device> {
    Some(Device { id: MemberId::device(number), data_offset: 512 })
}

#[test]
fn roles_that_come_later_are_members_as_others_are() {
    let io = Io::new(Box::new(Memory::new()));
    let members = Members::new(&io, [device(0), device(1)]);
    assert!(members.all_in_sync());
    assert_eq!(members.grow([device(2), None]), 2..4);
    assert_eq!((members.len(), members.lost()), (4, 1));
    assert_eq!((members.state(2), members.state(3)), (RoleState::InSync, RoleState::Missing));
    assert_eq!(members.role_of(MemberId::device(2)), Some(2));
    assert_eq!(members.readable(2, 4096), device(2));
    members.fail(2);
    assert_eq!((members.state(2), members.writable(2), members.lost()), (RoleState::Failed, None, 2));
    members.set_device(3, device(5).expect("one"), RoleState::Recovering(0));
    assert_eq!(members.grow([device(6)]), 4..5);
    assert_eq!((members.state(3), members.state(4)), (RoleState::Recovering(0), RoleState::InSync));
    io.shutdown();
}
