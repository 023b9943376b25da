//! The engine that carries operations out: the kernel's ring, or threads.

use std::os::fd::RawFd;

use io_uring::{Submitter, opcode, types};

use super::ring::{Ring, Token, Wait};
use crate::op::{OpKey, OpKind, SocketId};
use crate::threads::Threads;

pub(super) enum Engine {
    Ring(Ring),
    Threads(Threads),
}

impl Engine {
    pub(super) fn is_threads(&self) -> bool {
        matches!(self, Self::Threads(_))
    }

    /// The place to register files, buffers and limits, if there is a ring.
    pub(super) fn submitter(&self) -> Option<Submitter<'_>> {
        match self {
            Self::Ring(ring) => Some(ring.submitter()),
            Self::Threads(_) => None,
        }
    }

    /// Calls off what is under way on a socket; [`Token::Cancel`] tells when that is done. The descriptor stays open until then.
    pub(super) fn cancel(&mut self, id: SocketId, fd: RawFd) {
        match self {
            Self::Ring(ring) => {
                let whose = types::CancelBuilder::fd(types::Fd(fd)).all();
                // SAFETY: the entry points to nothing; the descriptor stays open until `cancelled`.
                unsafe { ring.push(opcode::AsyncCancel2::new(whose).build(), Token::Cancel(id)) };
            }
            Self::Threads(threads) => threads.cancel(id),
        }
    }

    /// A socket is being closed: nothing new will be asked of it.
    pub(super) fn forget(&mut self, id: SocketId) {
        if let Self::Threads(threads) = self {
            threads.forget(id);
        }
    }

    /// Calls an operation off that nobody waits for.
    pub(super) fn give_up(&mut self, key: OpKey, kind: OpKind) {
        match self {
            Self::Ring(ring) => {
                let entry = opcode::AsyncCancel::new(Token::Op(key).to_bits()).build();
                // SAFETY: the entry points to nothing. Entries are sent in order, so that it meets no later use of the key.
                unsafe { ring.push(entry, Token::GiveUp) };
            }
            Self::Threads(threads) => {
                if let Some(member) = kind.member() {
                    threads.take_back(member, key);
                }
            }
        }
    }

    /// Sends what was asked and waits for an answer, or less long.
    pub(super) fn enter(&mut self, wait: Wait) {
        match self {
            Self::Ring(ring) => ring.enter(wait),
            Self::Threads(threads) => match wait {
                Wait::Not => threads.wait(Some(core::time::Duration::ZERO)),
                Wait::For(span) => threads.wait(Some(span)),
                Wait::Endless => threads.wait(None),
            },
        }
    }

    /// Takes all answers.
    #[inline]
    pub(super) fn reap(&mut self, into: &mut Vec<(Token, i32)>) {
        match self {
            Self::Ring(ring) => ring.reap(into),
            Self::Threads(threads) => {
                into.extend(threads.take().map(|(key, result)| (Token::Op(key), result)));
                into.extend(threads.take_cancelled().map(|id| (Token::Cancel(id), 0)));
            }
        }
    }
}
