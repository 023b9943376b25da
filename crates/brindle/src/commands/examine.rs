//! `brindle examine`: the content of each member, and why a set does not form an array.

mod bitmap;
mod container;
mod usage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use brindle_format::md::{DeviceRole, Superblock, display_uuid};
use brindle_format::pool::{MemberRecord, MemberState};
use brindle_format::signature::{Found, Signature};
use brindle_io::device::{DeviceAccess, DeviceErrorKind};
use brindle_layout::{Geometry, Layout, Level};
use brindle_md::assembly::Candidate;
use brindle_md::treatment;
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::look::{self, Look, Patient};
use crate::base::report::{self, ReshapeFacts};
use crate::base::units::{Bytes, Moment};
use crate::devices::scan::scan;
use crate::devices::world::{describe, place, search};
use crate::devices::{containers, pools};
use crate::flags::cli::Examine;
use bitmap::BitmapReport;
use container::ContainerReport;

/// Roles that are reported: more than any array has.
const MOST_ROLES: usize = 4096;

/// The output of `brindle examine --json`.
#[derive(Debug, Serialize)]
struct Report {
    members: Vec<MemberReport>,
    /// Why the members with md superblocks do not form an array; null if they do, or if there is none.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct MemberReport {
    path: String,
    size: Option<u64>,
    /// Why the device, or a part of it, can't be looked at, or its superblock can't be trusted.
    error: Option<String>,
    /// Whether all that was looked at is zero; null if that is unknown.
    blank: Option<bool>,
    superblock: Option<SuperblockReport>,
    /// Its label, if it is a member of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<PoolLabel>,
    /// Its metadata, if it is a disk of a container of Intel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<ContainerReport>,
    /// The device's state in the array that the named devices form; null if they form none, or without it.
    in_array: Option<&'static str>,
    /// The write-intent bitmap that a file is.
    bitmap: Option<BitmapReport>,
    signatures: Vec<SignatureReport>,
}

#[derive(Debug, Serialize)]
struct SignatureReport {
    kind: String,
    offset: u64,
    label: Option<String>,
    uuid: Option<String>,
}

#[derive(Debug, Serialize)]
struct SuperblockReport {
    metadata: String,
    array_uuid: String,
    device_uuid: Option<String>,
    name: String,
    homehost: Option<String>,
    level: String,
    layout: Option<String>,
    chunk: Option<u64>,
    raid_devices: u32,
    /// Bytes; null for levels that use all of each member: one superblock can't tell.
    array_size: Option<u64>,
    component_size: u64,
    data_offset: u64,
    data_size: u64,
    super_offset: u64,
    /// Bytes from the superblock to the write-intent bitmap.
    bitmap_offset: Option<i64>,
    bad_block_log: Option<BadBlockLogReport>,
    created: u64,
    updated: u64,
    events: u64,
    device_number: u32,
    role: String,
    state: &'static str,
    resync_offset: Option<u64>,
    recovery_offset: Option<u64>,
    reshape: Option<ReshapeFacts>,
    features: Vec<String>,
    flags: Vec<&'static str>,
    /// The checksum in mdadm's format.
    checksum: String,
    /// The array as this device knows it: A active, R with a replacement beside it, . missing or failed, by role.
    array_state: String,
}

#[derive(Debug, Serialize)]
struct BadBlockLogReport {
    /// Bytes from the superblock.
    offset: i64,
    size: u64,
}

/// The label of a member of a pool.
#[derive(Debug, Serialize)]
struct PoolLabel {
    name: String,
    uuid: String,
    /// `VDEV.ROLE`.
    member: String,
    members: usize,
    created: u64,
}

impl PoolLabel {
    fn of(path: &Path) -> Result<Option<Self>, Failure> {
        let Some(label) = pools::member_head(path)?.map(|found| found.label) else { return Ok(None) };
        let member = match label.members.get(usize::from(label.member)) {
            // It has no role, but a number.
            Some(record) if record.role.is_none() => label.member.to_string(),
            _ => brindle_pool::Role::of(&label, label.member).to_string(),
        };
        let is_there = |record: &&MemberRecord| record.state != MemberState::Gone;
        let (uuid, members) = (label.pool.to_string(), label.members.iter().filter(is_there).count());
        Ok(Some(Self { name: label.name, uuid, member, members, created: label.created }))
    }
}

pub(crate) fn examine(args: &Examine) -> Result<ExitCode, Failure> {
    if args.scan {
        let scanned = scan(&args.members);
        scanned.tell_refused();
        let lines = scanned.all.into_iter().filter_map(|found| found.array_line());
        report::print(&lines.map(|line| line + "\n").collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(to) = &args.dump {
        let [name] = &args.members[..] else {
            return Err(Failure::Usage("--dump keeps the metadata of one disk: name one".to_owned()));
        };
        report::print(&container::dump(name, to, args.anonymous)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut reports = Vec::new();
    let mut candidates = Vec::new();
    for name in args.members.iter().flat_map(|name| with_what_is_inside(name, args.search)) {
        let path = name.as_path();
        match look(path) {
            Ok((report, candidate)) => {
                let (pool, error) = match PoolLabel::of(path) {
                    Ok(pool) => (pool, report.error),
                    Err(why) => (None, report.error.or_else(|| Some(why.to_string()))),
                };
                let (container, error) = match ContainerReport::look(path) {
                    Ok(container) => (container, error),
                    Err(why) => (None, error.or_else(|| Some(why.to_string()))),
                };
                let is_disk = container.is_some();
                let report =
                    MemberReport { bitmap: BitmapReport::look(path), pool, container, error, ..report };
                reports.push(if is_disk { report.of_container() } else { report });
                let candidate = candidate.filter(|_| !is_disk);
                candidates.extend(candidate.filter(|candidate| !candidate.found.is_empty()));
            }
            Err(failure) => reports.push(MemberReport::unreadable(path, &failure)),
        }
    }
    usage::tell(&mut reports, &candidates);
    // Disks may have members of several arrays inside.
    let is_inside = reports.len() > args.members.len();
    let problem = if is_inside { problem_of_each(&candidates) } else { problem(&candidates) };
    let report = Report { problem, members: reports };
    let failed = report.members.iter().any(|member| member.error.is_some());
    if args.json {
        report::print_json(&report)?;
    } else {
        report::tell(&report.text())?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The name itself, and its partitions, if it is not a member as a whole; members of other sizes if they are to be searched for, or nothing
/// else is there.
fn with_what_is_inside(name: &Path, search: bool) -> Vec<PathBuf> {
    let mut all = vec![name.to_owned()];
    // Parts of a volume lie on its disks, which are no disks with partitions.
    if containers::is_disk(name) {
        return all;
    }
    let Ok((report, candidate)) = look(name) else { return all };
    if candidate.as_ref().is_none_or(look::is_unfit)
        && let Ok(inside) = place::inside(name)
    {
        all.extend(inside);
    }
    let is_nothing =
        report.is_nothing() && BitmapReport::look(name).is_none() && matches!(PoolLabel::of(name), Ok(None));
    if search || is_nothing && all.len() == 1 && report.is_quick() {
        all.extend(search::members(name));
    }
    all
}

/// Looks at a device; no ring is needed for that.
fn look(path: &Path) -> Result<(MemberReport, Option<Candidate>), Failure> {
    let device = match place::open(path, DeviceAccess::Examine) {
        Ok(device) => device,
        Err(Failure::Open(error)) if error.kind == DeviceErrorKind::Empty => {
            return Ok((MemberReport::empty(path), None));
        }
        Err(failure) => return Err(failure),
    };
    let label = path.display().to_string();
    let mut patient = Patient::new(look::reader(&device));
    let candidate = look::candidate(&label, device.info(), |offset, len| Ok(patient.read(offset, len)))?;
    let look = look::look(device.info().size, |offset, len| Ok(patient.read(offset, len)))?;
    Ok((MemberReport::of(&candidate, look, patient.failure.as_ref()), Some(candidate)))
}

/// Problems of each array for itself.
fn problem_of_each(candidates: &[Candidate]) -> Option<String> {
    let uuid = |candidate: &Candidate| candidate.superblock().ok().map(|(superblock, _)| superblock.set_uuid);
    let mut uuids: Vec<_> = candidates.iter().filter_map(uuid).collect();
    uuids.sort_unstable();
    uuids.dedup();
    let of = |wanted| candidates.iter().filter(|one| uuid(one) == Some(wanted)).cloned().collect::<Vec<_>>();
    let problems: Vec<String> = uuids.into_iter().filter_map(|wanted| problem(&of(wanted))).collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn problem(candidates: &[Candidate]) -> Option<String> {
    if candidates.is_empty() {
        return None;
    }
    // An unusable device is reported by itself, and the others may do without it.
    let sound: Vec<Candidate> = candidates.iter().filter(|one| !look::is_unfit(one)).cloned().collect();
    let candidates = if sound.is_empty() { candidates } else { &sound };
    let failure = describe(candidates, false).err()?;
    (candidates.len() > 1 || !failure.lacks_others()).then(|| failure.to_string())
}

impl MemberReport {
    fn of(candidate: &Candidate, look: Look, failure: Option<&Failure>) -> Self {
        let (superblock, error) = match candidate.superblock() {
            Ok((sb, _)) => (Some(SuperblockReport::of(sb)), None),
            Err(why) => (None, why.map(ToString::to_string)),
        };
        Self {
            path: candidate.label.clone(),
            size: Some(candidate.member.size),
            error: failure.map(ToString::to_string).or(error),
            // Zeroes stand in for unreadable parts.
            blank: (!look.blank || failure.is_none()).then_some(look.blank),
            superblock,
            in_array: None,
            bitmap: None,
            pool: None,
            container: None,
            signatures: look.found.into_iter().map(SignatureReport::of).collect(),
        }
    }

    /// The report of a device smaller than a block, which can hold nothing.
    fn empty(path: &Path) -> Self {
        Self {
            path: path.display().to_string(),
            size: std::fs::metadata(path).ok().map(|meta| meta.len()),
            error: None,
            blank: None,
            superblock: None,
            in_array: None,
            bitmap: None,
            pool: None,
            container: None,
            signatures: Vec::new(),
        }
    }

    /// Of a disk of a container only its own signature counts: others are content of volumes.
    fn of_container(mut self) -> Self {
        let own = Signature::Imsm.to_string();
        self.signatures.retain(|found| found.kind == own);
        (self.superblock, self.error) = (None, None);
        self
    }

    /// A look through all of it takes no long time.
    fn is_quick(&self) -> bool {
        self.size.is_some_and(search::is_quick)
    }

    /// Whether the device has content of no known kind.
    fn is_nothing(&self) -> bool {
        self.error.is_none()
            && self.superblock.is_none()
            && self.signatures.is_empty()
            && self.blank == Some(false)
    }

    fn unreadable(path: &Path, failure: &Failure) -> Self {
        Self { size: None, error: Some(failure.to_string()), ..Self::empty(path) }
    }

    /// The superblock says more of itself than its signature does.
    fn is_implied(&self, found: &SignatureReport) -> bool {
        let own = |sb: &SuperblockReport| sb.super_offset == found.offset && found.kind.starts_with("md");
        self.superblock.as_ref().is_some_and(own)
    }

    fn text(&self) -> String {
        let mut text = format!("{}:", self.path);
        if let Some(size) = self.size {
            text.push_str(&format!(" {} ({size} bytes)", Bytes(size)));
        }
        text.push('\n');
        if let Some(error) = &self.error {
            text.push_str(&format!("  {error}\n"));
        }
        if let Some(sb) = &self.superblock {
            text.push_str(&sb.text());
        }
        if let Some(state) = self.in_array {
            text.push_str(&format!(
                "{:>16} : {state}, of the array that the devices named here form\n",
                "In use as"
            ));
        }
        for found in self.signatures.iter().filter(|found| !self.is_implied(found)) {
            text.push_str(&format!("  {}\n", found.text()));
        }
        if let Some(PoolLabel { name, member, members, created, .. }) = &self.pool {
            text.push_str(&format!(
                "  member {member} of the pool \"{}\" of {members} members, made {}\n",
                name.escape_debug(),
                Moment(*created)
            ));
        }
        if let Some(container) = &self.container {
            text.push_str(&container.text());
        }
        if let Some(bitmap) = &self.bitmap {
            text.push_str(&bitmap.text());
        }
        let nothing = self.superblock.is_none() && self.bitmap.is_none() && self.signatures.is_empty();
        if self.error.is_none() && nothing {
            text.push_str(match self.blank {
                None => "  empty: less than one block\n",
                Some(true) => "  nothing: zeroes wherever something could stand\n",
                Some(false) if self.is_quick() => "  nothing that Brindle knows, but not blank\n",
                Some(false) => {
                    "  nothing that Brindle knows, but not blank: --search looks through all of it for members that ended before it does\n"
                }
            });
        }
        text
    }
}

impl SignatureReport {
    fn of(found: Found) -> Self {
        Self { kind: found.signature.to_string(), offset: found.offset, label: found.label, uuid: found.uuid }
    }

    /// `XFS file system "data", UUID 0123..., at byte 0`.
    fn text(&self) -> String {
        let mut text = self.kind.clone();
        if let Some(label) = &self.label {
            text.push_str(&format!(" \"{}\"", label.escape_debug()));
        }
        match &self.uuid {
            Some(uuid) => text.push_str(&format!(", UUID {}, at", uuid.escape_debug())),
            None => text.push_str(" at"),
        }
        text + &format!(" byte {}", self.offset)
    }
}

impl SuperblockReport {
    fn of(sb: &Superblock) -> Self {
        let level = Level::from_md(sb.level).ok();
        let layout = level.and_then(|level| Layout::from_md(level, sb.layout).ok());
        Self {
            metadata: sb.version.to_string(),
            array_uuid: display_uuid(sb.set_uuid).to_string(),
            device_uuid: sb.version.is_v1().then(|| display_uuid(sb.device_uuid).to_string()),
            name: sb.name.clone(),
            homehost: report::homehost(&sb.name),
            level: level
                .map_or_else(|| format!("unknown level {}", sb.level), |level| level.name().to_owned()),
            layout: layout.filter(|layout| *layout != Layout::None).map(|layout| layout.name()),
            chunk: (sb.chunk != 0).then_some(sb.chunk),
            raid_devices: sb.raid_disks,
            array_size: level.zip(layout).and_then(|(level, layout)| array_size(sb, level, layout)),
            component_size: sb.component_size,
            data_offset: sb.data_offset,
            data_size: sb.data_size,
            super_offset: sb.super_offset,
            bitmap_offset: sb.bitmap_offset,
            bad_block_log: sb
                .bad_block_log
                .map(|log| BadBlockLogReport { offset: log.offset, size: log.size }),
            created: sb.created.seconds,
            updated: sb.updated.seconds,
            events: sb.events,
            device_number: sb.device_number,
            role: role(sb.role()),
            state: if sb.is_clean() { "clean" } else { "active" },
            resync_offset: sb.resync_offset,
            recovery_offset: sb.recovery_offset,
            reshape: ReshapeFacts::of(sb),
            features: sb.features.names().map(str::to_owned).collect(),
            flags: report::flags(treatment(sb.flags)),
            checksum: format!("{:x}", sb.checksum()),
            array_state: array_state(sb),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: &str| text.push_str(&format!("{name:>16} : {value}\n"));
        row("Metadata", &self.metadata);
        row("Array UUID", &self.array_uuid);
        row("Name", &report::name_text(&self.name));
        if let Some(host) = &self.homehost {
            row("Home host", &report::name_text(host));
        }
        row("Level", &self.level);
        if let Some(layout) = &self.layout {
            row("Layout", layout);
        }
        if let Some(chunk) = self.chunk {
            row("Chunk", &Bytes(chunk).to_string());
        }
        row("Raid devices", &self.raid_devices.to_string());
        row("Data offset", &format!("{} sectors", self.data_offset / 512));
        row("Data size", &format!("{} sectors", self.data_size / 512));
        if self.component_size > 0 {
            row("Used of each", &format!("{} sectors", self.component_size / 512));
        }
        if let Some(size) = self.array_size {
            row("Array size", &Bytes(size).to_string());
        }
        row("State", self.state);
        if let Some(uuid) = &self.device_uuid {
            row("Device UUID", uuid);
        }
        if let Some(reshape) = &self.reshape {
            row("Reshape", &report::reshape_text(reshape));
        }
        if let Some(offset) = self.bitmap_offset {
            row("Bitmap", &format!("{} sectors from superblock", offset / 512));
        }
        if let Some(log) = &self.bad_block_log {
            let (sectors, offset) = (log.size / 512, log.offset / 512);
            row("Bad block log", &format!("{sectors} sectors, {offset} sectors from superblock"));
        }
        row("Created", &Moment(self.created).to_string());
        row("Updated", &Moment(self.updated).to_string());
        if !self.features.is_empty() {
            row("Features", &self.features.join(", "));
        }
        if !self.flags.is_empty() {
            row("Flags", &self.flags.join(", "));
        }
        row("Checksum", &self.checksum);
        row("Events", &self.events.to_string());
        row("Device role", &self.role);
        row(
            "Array state",
            &format!("{} ('A' active, 'R' being replaced, '.' missing or failed)", self.array_state),
        );
        text
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text: String = self.members.iter().map(MemberReport::text).collect::<Vec<_>>().join("\n");
        if let Some(problem) = &self.problem {
            text.push_str(&format!("\nThese do not form an array: {problem}\n"));
        }
        text
    }
}

/// Size of the array, if each member uses as many bytes as this one.
fn array_size(sb: &Superblock, level: Level, layout: Layout) -> Option<u64> {
    let members = usize::try_from(sb.raid_disks).ok().filter(|&count| count <= MOST_ROLES)?;
    let sizes = vec![sb.component_size; members];
    let known = level.is_redundant() && sb.reshape.is_none();
    known.then(|| Geometry::new(level, layout, sb.chunk, &sizes).ok()).flatten().map(|whole| whole.size())
}

/// One letter a role, in one pass over the table of roles: its length and the number of members both come from the disk.
fn array_state(sb: &Superblock) -> String {
    let mut state = vec!['.'; MOST_ROLES.min(sb.all_raid_disks() as usize)];
    for role in sb.roles.iter().filter_map(|role| role.active()) {
        if let Some(place) = state.get_mut(usize::from(role)) {
            *place = if *place == '.' { 'A' } else { 'R' };
        }
    }
    state.into_iter().collect()
}

fn role(role: DeviceRole) -> String {
    match role {
        DeviceRole::Active(role) => format!("active {role}"),
        DeviceRole::Spare => "spare".into(),
        DeviceRole::Faulty => "faulty".into(),
        DeviceRole::Journal => "journal".into(),
        DeviceRole::Vacant => "unused".into(),
    }
}
