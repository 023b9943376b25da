//! Modelled drives as a host's devices: each is found by its name, is gone as long as its faults say so, and stays on the reactor
//! when it is closed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_format::md::Uuid;
use brindle_host::{
    Attacher, Devices, Found, Made, NewBitmapFile, Newcomer, Pending, Refused, Search, Source, Terms,
};
use brindle_io::device::Identity;
use brindle_io::sim::Sim;
use brindle_io::{Io, MemberId, Pool};
use brindle_md::assembly::Candidate;

use super::kernel::Kernel;

/// The drives of one boot.
#[derive(Clone)]
pub(super) struct Drives(Rc<Inner>);

struct Inner {
    sim: Sim,
    io: Io,
    pool: Pool,
    ids: Vec<MemberId>,
    /// Numbers of those that are open.
    open: RefCell<BTreeSet<usize>>,
    /// Identities that were given.
    given: Cell<u128>,
    kernel: Kernel,
}

impl Drives {
    /// All of them, closed. Identities that are given differ from those of other boots.
    pub(super) fn new(sim: &Sim, io: &Io, pool: &Pool, ids: &[MemberId], kernel: &Kernel, boot: u64) -> Self {
        let (ids, given) = (ids.to_vec(), Cell::new(u128::from(boot) << 64));
        let (sim, io, pool, kernel) = (sim.clone(), io.clone(), pool.clone(), kernel.clone());
        Self(Rc::new(Inner { sim, io, pool, ids, open: RefCell::default(), given, kernel }))
    }

    /// The name of a drive.
    pub(super) fn name(number: usize) -> String {
        format!("d{number}")
    }

    /// The drive of that name.
    fn number(&self, name: &Path) -> Option<usize> {
        let number: usize = name.to_str()?.strip_prefix('d')?.parse().ok()?;
        (number < self.0.ids.len()).then_some(number)
    }

    pub(super) fn is_gone(&self, number: usize) -> bool {
        self.0.sim.faults(self.0.ids[number]).gone
    }

    /// The number of the drive of that name.
    pub(super) fn number_of(&self, name: &str) -> Option<usize> {
        self.number(Path::new(name))
    }

    pub(super) fn is_open(&self, name: &str) -> bool {
        self.number_of(name).is_some_and(|number| self.0.open.borrow().contains(&number))
    }

    /// A drive goes away, or comes back.
    pub(super) fn set_gone(&self, sim: &Sim, number: usize, gone: bool) {
        sim.afflict(self.0.ids[number], |faults| faults.gone = gone);
    }

    /// All drives are closed, as they are when a process ends.
    pub(super) fn close_all(&self) {
        self.0.open.borrow_mut().clear();
    }

    /// A drive as assembly sees it; none if it does not answer.
    pub(super) async fn candidate(&self, number: usize) -> Option<Candidate> {
        let (id, inner) = (self.0.ids[number], &self.0);
        Candidate::read(&inner.io, &inner.pool, id, Self::name(number)).await.ok()
    }

    /// Opens a drive that is there and is not open.
    pub(super) fn take(&self, number: usize) -> Option<Newcomer> {
        let is_new = !self.is_gone(number) && self.0.open.borrow_mut().insert(number);
        is_new.then(|| Newcomer {
            label: Self::name(number),
            file: None,
            id: self.0.ids[number],
            identity: Identity::modelled(number as u64),
        })
    }

    async fn is_of(&self, number: usize, array: Uuid) -> bool {
        let candidate = self.candidate(number).await;
        let superblock = candidate.as_ref().and_then(|candidate| candidate.superblock().ok());
        superblock.is_some_and(|(superblock, _)| superblock.set_uuid == array)
    }
}

impl Devices for Drives {
    fn open(&self, sources: Vec<Source>, _: Terms) -> Pending<Result<Vec<Newcomer>, Refused>> {
        let this = self.clone();
        Box::pin(async move {
            let mut opened: Vec<Newcomer> = Vec::new();
            for source in sources {
                // A modelled drive has no descriptor.
                let named = match &source {
                    Source::Named(name) => this.number(name),
                    Source::Given(..) => None,
                };
                match named.and_then(|number| this.take(number)) {
                    Some(newcomer) => opened.push(newcomer),
                    None => {
                        let ids: Vec<MemberId> = opened.iter().map(|newcomer| newcomer.id).collect();
                        this.close(&ids).await;
                        return Err(Refused::new(format!(
                            "{}: it is not to be had",
                            source.name().display()
                        )));
                    }
                }
            }
            Ok(opened)
        })
    }

    fn find(&self, search: Search) -> Pending<Found> {
        let this = self.clone();
        Box::pin(async move {
            let named = search.names.iter().filter_map(|name| this.number(name));
            let all = (0..this.0.ids.len()).filter(|_| search.everywhere);
            let mut found = Found::default();
            for number in named.chain(all).collect::<BTreeSet<usize>>() {
                let is_left = search.but.contains(&Identity::modelled(number as u64));
                if !is_left
                    && !this.0.open.borrow().contains(&number)
                    && this.is_of(number, search.array).await
                {
                    found.newcomers.extend(this.take(number));
                }
            }
            found
        })
    }

    fn make_bitmap(&self, new: NewBitmapFile) -> Pending<Result<Made, Refused>> {
        let why = format!("{}: these drives are no file system", new.path.display());
        Box::pin(async { Err(Refused::new(why)) })
    }

    fn unmake_bitmap(&self, _: Made) -> Pending<()> {
        Box::pin(async {})
    }

    fn known(&self) -> Vec<(Identity, PathBuf)> {
        let open = self.0.open.borrow();
        open.iter().map(|&at| (Identity::modelled(at as u64), PathBuf::from(Self::name(at)))).collect()
    }

    fn close(&self, devices: &[MemberId]) -> Pending<()> {
        let number = |id: &MemberId| self.0.ids.iter().position(|known| known == id);
        for closed in devices.iter().filter_map(number) {
            self.0.open.borrow_mut().remove(&closed);
        }
        Box::pin(async {})
    }

    fn attacher(&self) -> Option<Rc<dyn Attacher>> {
        Some(Rc::new(self.0.kernel.clone()))
    }

    fn new_uuid(&self) -> Result<Uuid, Refused> {
        let next = self.0.given.get() + 1;
        self.0.given.set(next);
        Ok(Uuid::from_u128(next))
    }
}
