//! Arrays as members of arrays: RAID 50, RAID 60, stripes of whatever else is redundant.

use std::rc::Rc;

use brindle_io::{Io, Mapped, MemberId, MemberInfo, OpError, OpKind, Served, ServedOp};

use crate::{Volume, VolumeError, ZeroOptions};

/// Makes a volume a member that an array above can have, on the same executor.
///
/// `slots` requests are carried out at the same time; more wait. The tasks that do it live as long as the executor.
/// A request that the volume can't satisfy is an error of the member: [`OpError::Gone`] where the volume is beyond
/// repair or stopped, so that the array above stops asking it.
pub fn serve(io: &Io, volume: impl Volume + 'static, slots: usize) -> MemberId {
    let limits = volume.limits();
    let served = Rc::new(io.serve_member(MemberInfo {
        size: limits.size,
        logical_block: limits.block,
        physical_block: limits.preferred.max(limits.block),
        rotational: false,
        discard: limits.discard && !limits.read_only,
        write_zeroes: !limits.read_only,
    }));
    let member = served.member();
    let volume = Rc::new(volume);
    for _ in 0..slots.max(1) {
        drop(io.spawn(slot(io.clone(), Rc::clone(&served), Rc::clone(&volume))));
    }
    member
}

async fn slot(io: Io, served: Rc<Served>, volume: Rc<impl Volume>) {
    loop {
        let mut request = served.next().await;
        let Some(op) = request.take() else { continue };
        // A resync of the array above is one of the volume's members, too.
        io.set_class(op.class);
        if let OpKind::Map { offset, len, .. } = op.kind {
            request.tell(map(&*volume, offset, len).await.map(Mapped::to_bits).map_err(member_error));
            continue;
        }
        let result = carry_out(&*volume, op).await;
        request.complete(result.map_err(member_error));
    }
}

/// Maps the volume's data and holes from a byte on.
async fn map(volume: &impl Volume, offset: u64, len: u64) -> Result<Mapped, VolumeError> {
    let mut found = Vec::new();
    volume.allocation(offset, len, &mut found).await?;
    let first = found.first().filter(|first| first.len > 0);
    Ok(first.map_or(Mapped::stored(len), |first| Mapped { len: first.len, hole: first.hole && first.zero }))
}

async fn carry_out(volume: &impl Volume, op: ServedOp) -> Result<(), VolumeError> {
    match op.kind {
        // A request that the array above has merged stays one request.
        OpKind::Read { offset, .. } => volume.read(offset, op.slices).await,
        OpKind::Write { offset, fua, .. } => volume.write(offset, op.slices, fua).await,
        OpKind::Flush { .. } => volume.flush().await,
        OpKind::Discard { offset, len, .. } => volume.discard(offset, len).await,
        OpKind::WriteZeroes { offset, len, may_unmap, .. } => {
            let options = ZeroOptions { keep_allocated: !may_unmap, ..ZeroOptions::default() };
            volume.write_zeroes(offset, len, options).await
        }
        // A served member is not probed, since it can't change. Holes are reported elsewhere.
        OpKind::Map { .. }
        | OpKind::Probe { .. }
        | OpKind::Accept { .. }
        | OpKind::Recv { .. }
        | OpKind::Send { .. }
        | OpKind::Ask { .. } => Err(VolumeError::Unsupported),
    }
}

fn member_error(error: VolumeError) -> OpError {
    match error {
        VolumeError::OutOfRange => OpError::OutOfRange,
        VolumeError::Unsupported | VolumeError::Reshaping => OpError::Unsupported,
        // The array above asks again, with memory of its own choice.
        VolumeError::Again => OpError::TimedOut,
        VolumeError::Member { error: OpError::TimedOut, .. } => OpError::Medium(ETIMEDOUT),
        VolumeError::Member { error, .. } => error,
        VolumeError::TooManyLost | VolumeError::Stopping => OpError::Gone,
        VolumeError::NoSpace => OpError::NoSpace,
        VolumeError::Unaligned | VolumeError::ReadOnly => OpError::Medium(EINVAL),
    }
}

/// The errno of a member's member that did not answer.
const ETIMEDOUT: i32 = 110;
/// The errno of a request that makes no sense.
const EINVAL: i32 = 22;
