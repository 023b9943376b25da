//! The number of files that a process may have open, and how many a server needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of a member while an array is opened: two of the world that looks at it, two of the one that uses it.
const OF_A_MEMBER: u64 = 4;

/// Descriptors of a server without members: rings, sockets, and the first clients.
const OF_A_SERVER: u64 = 40;

/// The room of this process.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    limit: Option<u64>,
}

impl Room {
    /// Takes as many as this process may have without being asked for more rights.
    pub(crate) fn take() -> Self {
        let limit = getrlimit(Resource::Nofile);
        if limit.current != limit.maximum {
            let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
            if setrlimit(Resource::Nofile, raised).is_err() {
                return Self { limit: limit.current };
            }
        }
        Self { limit: limit.maximum }
    }

    /// The reason why so many members can't be served by one process, of `all` that there are.
    pub(crate) fn lacks(self, members: usize, all: usize) -> Option<String> {
        let need = |members: usize| OF_A_SERVER + OF_A_MEMBER * members as u64;
        let limit = self.limit.filter(|limit| *limit < need(members))?;
        Some(words(all, need(all), limit))
    }

    /// The reason why so many members can't come to a server that runs.
    pub(crate) fn lacks_more(self, members: usize) -> Option<String> {
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().count();
        let need = open as u64 + OF_A_MEMBER * members as u64;
        let limit = self.limit.filter(|limit| *limit < need)?;
        Some(words(members, need, limit))
    }
}

fn words(members: usize, need: u64, limit: u64) -> String {
    format!(
        "too few descriptors: its server needs {need} with {members} members, and this process may have {limit}; raise the limit \
         (LimitNOFILE= of the service, ulimit -n)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_told_with_the_limit_and_the_need() {
        let room = Room { limit: Some(100) };
        assert_eq!(room.lacks(15, 20), None);
        let why = room.lacks(16, 20).unwrap();
        assert!(why.contains("needs 120") && why.contains("may have 100"), "{why}");
        assert_eq!(Room { limit: None }.lacks(1_000_000, 1_000_000), None);
    }
}
