//! Processor time of a door: how requests of clients come to the engine.

/// The way by which clients reach an array that Brindle serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// The load is in the engine's own process, as that of `brindle bench` is.
    InProcess,
    /// NBD over a Unix socket.
    Unix,
    /// NBD over TCP.
    #[default]
    Tcp,
    /// iSCSI, which is over TCP.
    Iscsi,
}

impl Door {
    /// Nanoseconds of a request, and of each KiB of it, by its processor time for 4 KiB and for 1 MiB. `docs/bench/iscsi.md` has TCP and iSCSI, a
    /// disk that keeps nothing (4.54 us and 167 us; 3.16 us and 152 us). `docs/bench/nbd.md` has the Unix socket, a loop device (6.20 us
    /// and 159 us), of which an operation on a member takes 1.94 us.
    const fn measured(self) -> (u64, u64) {
        match self {
            Self::InProcess => (0, 0),
            Self::Unix => (3_660, 150),
            Self::Tcp => (3_900, 159),
            Self::Iscsi => (2_580, 146),
        }
    }

    /// Nanoseconds of a request of `len` bytes.
    pub(super) const fn cost(self, len: u64) -> u64 {
        let (request, kib) = self.measured();
        request + kib * len / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_costs_what_was_measured() {
        let near = |door: Door, member: u64, [small, large]: [u64; 2]| {
            let off = |len: u64, nanos: u64| (door.cost(len) + member).abs_diff(nanos) * 100 / nanos;
            assert!(off(4 << 10, small) < 1 && off(1 << 20, large) < 1, "{door:?}");
        };
        near(Door::Tcp, 0, [4_540, 167_000]);
        near(Door::Iscsi, 0, [3_160, 152_000]);
        near(Door::Unix, 1_940, [6_200, 159_000]);
        assert_eq!(Door::InProcess.cost(1 << 20), 0);
    }
}
