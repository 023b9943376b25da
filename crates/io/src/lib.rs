//! The reactor seam. The engine above knows only [`Io`]: groups of operations on numbered members, buffers, tasks and
//! the time. Below it stand four reactors, and nothing above can tell which.
//!
//! | reactor | members | time |
//! |---|---|---|
//! | [`uring`] | regular files, partitions, block devices; by io_uring, or by threads where that is forbidden | real |
//! | [`emulated`] | the same, answering when a modelled drive would | real |
//! | [`memory`] | RAM or null | real |
//! | [`sim`] | modelled drives | virtual, seeded |
//!
//! This crate and `parity` are the only ones with `unsafe`.
#![allow(unsafe_code)]

mod arena;
mod began;
mod blocks;
mod bounce;
mod budget;
mod buf;
mod class;
pub(crate) mod core;
mod cpu;
mod crew;
pub mod device;
pub mod emulated;
mod exec;
mod given;
mod group;
mod haste;
mod lane;
mod loan;
mod loans;
mod map;
pub mod memory;
mod op;
mod patience;
mod peers;
mod pool;
mod pulse;
mod queues;
mod racing;
pub mod ranges;
mod reactor;
mod served;
mod shortfall;
pub mod sim;
mod store;
pub mod sync;
mod table;
mod task;
mod threads;
mod time;
pub mod uring;
mod waker;
mod watch;
mod word;

pub use arena::{NoMemory, NotGiven, PAGE, Source};
pub use blocks::MAX_BUF;
pub use budget::BudgetShare;
pub use buf::{Buf, Bytes, BytesMut, Slice};
pub use cpu::{ThreadClock, pin_to};
pub use crew::Berth;
pub use exec::{Io, Remote, Sleep, Task};
pub use given::{Given, Pages};
pub use group::{Group, Outcome, Pending};
pub use loan::Loan;
pub use loans::Question;
pub use map::Mapping;
pub use op::{
    Completion, Failure, Mapped, MemberId, MemberInfo, MemberKind, OpClass, OpError, OpKey, OpKind, OpSpan,
    OpTag, OpView, PathTarget, Probe, Segment, ServedId, ServedOp, SocketId,
};
pub use peers::{PeerUser, peer_user, receive_with};
pub use pool::{Pool, WaitForOthers};
pub use reactor::{HandedMember, HandedSocket, Reactor, Unpark};
pub use served::{Served, ServedRequest};
pub use store::ARENA;
pub use table::{Histogram, MAX_SEGMENTS, MemberCounters};
pub use task::TaskId;
pub use time::{Duration, Instant};
pub use watch::{Stuck, Watch};
pub use word::MOST_OF_A_CREW;
