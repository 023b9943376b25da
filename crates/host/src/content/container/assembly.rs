//! The container that disks make: the newest of what they say, and which disk each of them is. Pure, and the order of the disks never
//! matters.

use std::collections::BTreeMap;

use brindle_format::imsm::{Container, ContainerDisk, serial_text};

use super::error::ContainerError;

/// A disk with metadata of a container.
#[derive(Clone, Debug)]
pub struct ContainerMember {
    /// The name in messages.
    pub label: String,
    /// Bytes of it.
    pub size: u64,
    /// Bytes of its sectors, as its metadata count them.
    pub sector: u64,
    /// The byte at which its metadata begin.
    pub anchor: u64,
    /// Its metadata.
    pub metadata: Container,
    /// Its serial number, where the machine tells that.
    pub serial: Option<String>,
    /// The number of the disk in the container that it is by hand.
    pub number: Option<usize>,
}

/// The disks of one container.
#[derive(Clone, Debug)]
pub struct ContainerSet {
    /// The disks, in the order in which they were given.
    pub members: Vec<ContainerMember>,
    /// The metadata that count.
    pub newest: Container,
    /// By number of the disk in the container: the member that it is, if it may be read.
    pub disks: Vec<Option<usize>>,
    /// Members that are not read, each with the reason.
    pub left_out: Vec<(usize, String)>,
    /// Members that are not read unless that is forced, with the reason.
    stale: Vec<(usize, String)>,
}

impl ContainerSet {
    /// The container that these disks make.
    ///
    /// # Errors
    /// [`ContainerError::OnlySpares`], [`ContainerError::Families`], [`ContainerError::Contradict`], [`ContainerError::Twice`],
    /// [`ContainerError::Unidentified`], [`ContainerError::Overlap`].
    pub fn of(members: Vec<ContainerMember>, force: bool) -> Result<Self, ContainerError> {
        let newest = newest(&members)?.clone();
        let mut set = Self {
            disks: vec![None; newest.disks.len()],
            newest,
            members,
            left_out: Vec::new(),
            stale: Vec::new(),
        };
        set.no_overlap()?;
        let mut unknown = Vec::new();
        for at in 0..set.members.len() {
            match set.number(at) {
                Some(Some(number)) => set.place(at, number, force)?,
                Some(None) => {
                    let label = &set.members[at].label;
                    let why = format!(
                        "{label}: its serial number is none of the container's: it is no disk of it any more"
                    );
                    set.left_out.push((at, why));
                }
                None if set.members[at].metadata.is_spare() => {
                    let why = format!(
                        "{}: it is a spare of the container, and holds nothing of it",
                        set.members[at].label
                    );
                    set.left_out.push((at, why));
                }
                None => unknown.push(at),
            }
        }
        set.place_unknown(&unknown, force)?;
        if !force {
            set.left_out.append(&mut set.stale);
        }
        Ok(set)
    }

    /// The serial number of a disk, for people.
    pub fn serial(&self, number: usize) -> String {
        self.newest
            .disks
            .get(number)
            .map_or_else(|| format!("disk {number}"), |disk| serial_text(&disk.serial))
    }

    /// Warnings of disks that are read although they are out of date.
    pub fn forced(&self) -> impl Iterator<Item = &str> {
        self.stale.iter().map(|(_, why)| why.as_str())
    }

    /// The disk that a member is: by hand, by its own serial number or by one that its name holds. `Some(None)`: by its serial number it
    /// is none of them; `None`: nothing tells.
    fn number(&self, at: usize) -> Option<Option<usize>> {
        let member = self.members.get(at)?;
        if member.number.is_some() {
            return Some(member.number);
        }
        if let Some(serial) = &member.serial {
            let serial = kept_of(serial);
            return Some(self.newest.disks.iter().position(|disk| own_serial(disk) == serial));
        }
        let name = member.label.rsplit('/').next().unwrap_or_default();
        let held = |disk: &ContainerDisk| {
            let serial = own_serial(disk);
            let last = serial.rsplit('/').next().unwrap_or_default();
            (!last.is_empty() && name.contains(last)).then_some(last.len())
        };
        // A serial number may be a part of another.
        let longest = self.newest.disks.iter().filter_map(held).max()?;
        let mut all =
            (0..self.newest.disks.len()).filter(|number| held(&self.newest.disks[*number]) == Some(longest));
        match (all.next(), all.next()) {
            (Some(number), None) => Some(Some(number)),
            _ => None,
        }
    }

    fn place(&mut self, at: usize, number: usize, force: bool) -> Result<(), ContainerError> {
        let member = &self.members[at];
        let label = &member.label;
        let Some(disk) = self.newest.disks.get(number) else {
            self.left_out.push((at, format!("{label}: the container has no disk {number}")));
            return Ok(());
        };
        if disk.status.is_failed() || serial_text(&disk.serial).ends_with(":0") {
            self.left_out.push((at, format!("{label}: the container says that it has failed")));
            return Ok(());
        }
        let (own, newest) = (member.metadata.generation, self.newest.generation);
        // Disks are written one after the other: the machine may have stopped in between.
        if own.saturating_add(1) < newest {
            let why = format!("{label}: it is out of date, at generation {own} of {newest}");
            self.stale.push((at, why));
            if !force {
                return Ok(());
            }
        }
        if let Some(first) = self.disks[number] {
            let (first, second) = (self.members[first].label.clone(), label.clone());
            return Err(ContainerError::Twice { first, second, serial: self.serial(number) });
        }
        self.disks[number] = Some(at);
        Ok(())
    }

    /// Gives those of which nothing tells which disk they are the places that are left, where it can't be wrong.
    fn place_unknown(&mut self, unknown: &[usize], force: bool) -> Result<(), ContainerError> {
        if unknown.is_empty() {
            return Ok(());
        }
        let is_open =
            |number: &usize| self.disks[*number].is_none() && !self.newest.disks[*number].status.is_failed();
        let open: Vec<usize> = (0..self.disks.len()).filter(is_open).collect();
        let is_whole = |at: &usize| self.members[*at].metadata == self.newest;
        // All disks of mirrors hold the same.
        let alike = self.newest.volumes.iter().all(|volume| {
            let slots = &volume.map.slots;
            volume.map.level == 1 && slots.len() <= 2 && !slots.iter().any(|slot| slot.is_rebuilt())
        });
        let (many, last) = (unknown.len(), unknown.len() == 1 && open.len() == 1);
        if !(last || alike && many <= open.len() && unknown.iter().all(is_whole)) {
            return Err(ContainerError::Unidentified {
                labels: unknown.iter().map(|at| self.members[*at].label.clone()).collect(),
                serials: open.iter().map(|number| self.serial(*number)).collect(),
            });
        }
        for (at, number) in unknown.iter().zip(open) {
            self.place(*at, number, force)?;
        }
        Ok(())
    }

    fn no_overlap(&self) -> Result<(), ContainerError> {
        let volumes = &self.newest.volumes;
        for (at, one) in volumes.iter().enumerate() {
            for other in &volumes[at + 1..] {
                let shares = one
                    .map
                    .slots
                    .iter()
                    .any(|slot| other.map.slots.iter().any(|own| own.disk() == slot.disk()));
                let (end, other_end) = (end(&one.map), end(&other.map));
                if shares && one.map.offset < other_end && other.map.offset < end {
                    let (first, second) = (serial_text(&one.name), serial_text(&other.name));
                    return Err(ContainerError::Overlap { first, second });
                }
            }
        }
        Ok(())
    }
}

/// The byte of each disk at which a volume's part ends.
fn end(map: &brindle_format::imsm::VolumeMap) -> u64 {
    map.offset.saturating_add(map.member_size)
}

/// The metadata that count of those of one container's disks.
fn newest(members: &[ContainerMember]) -> Result<&Container, ContainerError> {
    let mut families: BTreeMap<u32, Vec<&ContainerMember>> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.metadata.is_spare()) {
        families.entry(member.metadata.family).or_default().push(member);
    }
    if families.len() > 1 {
        let name = |(family, members): (&u32, &Vec<&ContainerMember>)| {
            let labels: Vec<&str> = members.iter().map(|member| member.label.as_str()).collect();
            format!("{family:08x} ({})", labels.join(", "))
        };
        return Err(ContainerError::Families { families: families.iter().map(name).collect() });
    }
    let (_, mut all) = families.pop_first().ok_or(ContainerError::OnlySpares)?;
    all.sort_by_key(|member| std::cmp::Reverse(member.metadata.generation));
    let Some(first) = all.first() else { return Err(ContainerError::OnlySpares) };
    let generation = first.metadata.generation;
    let other = all.iter().find(|other| {
        other.metadata.generation == generation
            && (other.metadata != first.metadata || other.sector != first.sector)
    });
    match other {
        Some(other) => {
            let labels = vec![first.label.clone(), other.label.clone()];
            Err(ContainerError::Contradict { labels, generation })
        }
        None => Ok(&first.metadata),
    }
}

/// A disk's serial number without the mark of a failed one.
fn own_serial(disk: &ContainerDisk) -> String {
    let serial = serial_text(&disk.serial);
    serial.strip_suffix(":0").map_or(serial.clone(), str::to_owned)
}

/// The part of a drive's serial number that the format keeps.
fn kept_of(serial: &str) -> String {
    let kept: String =
        serial.chars().filter(|c| c.is_ascii_graphic()).map(|c| if c == ':' { ';' } else { c }).collect();
    kept[kept.len().saturating_sub(16)..].to_owned()
}
