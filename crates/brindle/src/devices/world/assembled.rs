//! Arrays that were put together from devices. This file alone has md's assembly, and opens arrays by it; all others have an array's
//! description.

use brindle_array::{Array, BitmapFile};
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_format::md::{Uuid, display_uuid, split_name};
use brindle_host::ArrayDescription;
use brindle_io::MemberId;
use brindle_io::device::DeviceAccess;
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, Assembly, Candidate, Claim, DeviceUse, Limitation};

use super::{LeftOut, Named, Set, World, assumed, ids};
use crate::base::failure::Failure;
use crate::base::runtime;

/// An array that was put together from devices, ready to be opened.
#[derive(Clone)]
pub(crate) struct Assembled(Assembly);

/// The description of the array that members form, if they form one: nothing of it is opened.
pub(crate) fn describe(members: &[Candidate], force: bool) -> Result<ArrayDescription, Failure> {
    let options = AssembleOptions { force, partial: false };
    Assembled::of(members, options).map(|assembled| assembled.description())
}

/// As [`describe`], of an array for whose use force may be needed.
pub(crate) fn describe_any(members: &[Candidate]) -> Result<ArrayDescription, Failure> {
    forced_if_need_be(|force| describe(members, force))
}

/// Without force, or with it where nothing else is lacking.
fn forced_if_need_be<T>(mut with: impl FnMut(bool) -> Result<T, Failure>) -> Result<T, Failure> {
    match with(false) {
        Err(failure) if failure.only_needs_force() => with(true),
        other => other,
    }
}

impl Assembled {
    fn of(members: &[Candidate], options: AssembleOptions) -> Result<Self, Failure> {
        Ok(Self(brindle_md::assembly::assemble(members, options)?))
    }

    /// See [`Assembly::go_on`].
    pub(crate) fn go_on(&mut self) {
        self.0.go_on();
    }

    /// It took force.
    pub(crate) fn is_forced(&self) -> bool {
        self.0.is_forced()
    }

    /// More members are missing than it can do without.
    pub(crate) fn is_partial(&self) -> bool {
        self.0.limits.iter().any(|limit| matches!(limit, Limitation::Partial { .. }))
    }

    /// The array as its members describe it.
    pub(crate) fn description(&self) -> ArrayDescription {
        ArrayDescription::of(&self.0)
    }

    /// Its UUID, as mdadm writes it.
    pub(crate) fn uuid(&self) -> String {
        display_uuid(self.0.uuid).to_string()
    }

    /// Its own name without its host, if that can name sockets and exports; else its UUID.
    pub(crate) fn own_name(&self) -> String {
        let (_, own) = split_name(&self.0.name);
        runtime::name_or_uuid(own, &self.uuid())
    }

    /// The name of an array whose own name another has.
    pub(crate) fn uuid_name(&self) -> String {
        runtime::uuid_name(&self.uuid())
    }

    /// The UUID that a file of its write-intent bitmap has.
    pub(crate) fn bitmap_uuid(&self) -> Option<Uuid> {
        self.0.devices.first().map(|device| device.superblock.bitmap_uuid())
    }

    /// A file that begins so, and has so many bytes, is that of its write-intent bitmap.
    pub(super) fn accept_bitmap(&mut self, file: BitmapFile, head: &[u8], len: u64) -> Result<(), Failure> {
        let label = file.label.clone();
        let accepted = self.0.accept_bitmap(file, head, len);
        accepted.map_err(|why| OpenError::Bitmap { label, why }.into())
    }

    /// The file of its write-intent bitmap, if one was given.
    pub(crate) fn bitmap_file(&mut self) -> Option<&mut BitmapFile> {
        self.0.bitmap_file.as_mut()
    }

    /// The device of the file of its write-intent bitmap, if that is open.
    pub(crate) fn bitmap_device(&self) -> Option<MemberId> {
        self.0.bitmap_file.as_ref()?.id
    }

    /// A device that was left out may belong to it, or be in the way of one of its devices.
    pub(crate) fn may_have(&self, left_out: &LeftOut) -> bool {
        left_out.is_of(self.0.uuid)
    }

    /// Every role has a device.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.missing().is_empty()
    }

    /// Refuses to go on without a device whose damaged superblock claims to be newer than all that it has. The others may
    /// lack the last writes.
    fn refuse_older(&self, left_out: &[LeftOut]) -> Result<(), Failure> {
        let newer = |claim: &Claim| {
            // One change apart is what a crash leaves.
            claim.array == self.0.uuid && claim.events > self.0.events.saturating_add(1)
        };
        let newest = left_out.iter().find_map(|left_out| Some((left_out, left_out.claim.filter(newer)?)));
        let Some((left_out, claim)) = newest else { return Ok(()) };
        Err(Failure::Newer { why: left_out.why.clone(), says: claim.events, others: self.0.events })
    }
}

impl World {
    /// The array that the members of a set form, with the findings in its journal. Arrays among them that are no part
    /// of it are put aside.
    pub(crate) fn assemble(&self, set: &mut Set, force: bool) -> Result<Assembled, Failure> {
        let formed = self.form(&set.members, &set.left_out, force);
        let mut assembled = formed.map_err(|failure| set.way_to_cut(set.blame_left_out(failure)))?;
        let assembly = &mut assembled.0;
        if assumed::given().is_some() {
            assembly.limits.push(Limitation::Assumed);
        }
        for device in &assembly.devices {
            if let DeviceUse::LeftOut { why, .. } = device.usage
                && let Some(at) = set.nested.iter().position(|nested| nested.label == device.label)
            {
                // Nothing may be written to it, not even what its own redundancy lacks.
                set.unused.push(set.nested.remove(at));
                set.left_out.push(LeftOut::of(&device.label, why, assembly.uuid));
            }
        }
        Ok(assembled)
    }

    /// As [`World::assemble`], of an array for whose use force may be needed.
    pub(crate) fn assemble_any(&self, set: &mut Set) -> Result<Assembled, Failure> {
        forced_if_need_be(|force| self.assemble(set, force))
    }

    pub(super) fn form(
        &self,
        members: &[Named],
        left_out: &[LeftOut],
        force: bool,
    ) -> Result<Assembled, Failure> {
        let candidates: Vec<Candidate> = members.iter().map(|member| member.candidate.clone()).collect();
        let options = AssembleOptions { force, partial: self.options.partial };
        let mut assembled = Assembled::of(&candidates, options)?;
        if !force {
            assembled.refuse_older(left_out)?;
        }
        let assembly = &mut assembled.0;
        self.io.block_on(assembly.look_into_logs(&self.io, &ids(members)))?;
        self.io.block_on(assembly.look_into_bitmap(&self.io, &ids(members)));
        Ok(assembled)
    }

    /// Opens the array that was assembled from `members`.
    pub(crate) fn start(&self, assembled: &Assembled, members: &[Named]) -> Result<Array, Failure> {
        let assembly = assembled.0.clone();
        Ok(self.io.block_on(brindle_md::open(&self.io, assembly, &ids(members), self.config()))?)
    }

    /// As [`World::start`], in a task, beside arrays that run.
    pub(crate) async fn begin(
        &self,
        assembled: &Assembled,
        members: &[MemberId],
        access: DeviceAccess,
    ) -> Result<Array, Failure> {
        let assembly = assembled.0.clone();
        Ok(brindle_md::open(&self.io, assembly, members, self.config_for(access)).await?)
    }

    /// The write-intent bitmap beside the freshest superblock, or why it can't be read; `None` if there is none.
    pub(crate) fn bitmap_beside(
        &self,
        Assembled(assembly): &Assembled,
        set: &Set,
    ) -> Option<Result<BitmapSuper, String>> {
        let device = assembly.devices.iter().max_by_key(|device| device.superblock.events)?;
        let offset = device.superblock.bitmap_offset?;
        let named = set.members.iter().find(|named| named.label == device.label)?;
        let at = device.super_offset.checked_add_signed(offset);
        let read = at
            .ok_or_else(|| "it would lie before the device".to_owned())
            .and_then(|at| self.read_at(named, at, BITMAP_SUPER_BYTES).map_err(|why| why.to_string()))
            .and_then(|bytes| BitmapSuper::parse(&bytes).map_err(|why| why.to_string()));
        Some(read)
    }
}
