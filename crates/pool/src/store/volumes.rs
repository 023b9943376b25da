//! The volumes of a pool, and the nodes that their blocks are written under.

use core::cell::RefCell;

use brindle_format::pool::{BLOCK, NODES, Node, Root, VOLUMES, VolumeRecord};

/// Volumes and nodes, as the next checkpoint is to have them.
#[derive(Default)]
pub(crate) struct VolumeList {
    records: RefCell<Vec<VolumeRecord>>,
    nodes: RefCell<Vec<Node>>,
}

impl VolumeList {
    /// The volumes that a checkpoint named, but for destroyed ones, and their nodes.
    pub(crate) fn found(&self, volumes: Vec<VolumeRecord>, nodes: Vec<Node>) {
        let volumes: Vec<VolumeRecord> = volumes.into_iter().filter(|volume| !volume.destroyed).collect();
        let is_known = |id: u32| volumes.iter().any(|volume| volume.id == id);
        self.nodes.replace(nodes.into_iter().filter(|node| is_known(node.volume)).collect());
        self.records.replace(volumes);
    }

    /// One more volume, with a node of its own.
    pub(crate) fn add(&self, volume: VolumeRecord) {
        let (dead, dead_blocks, frozen) = (Root::default(), 0, false);
        let node = Node { id: volume.node, parent: 0, volume: volume.id, frozen, dead, dead_blocks };
        self.nodes.borrow_mut().push(node);
        self.records.borrow_mut().push(volume);
    }

    /// A volume is gone, and its nodes with it.
    pub(crate) fn remove(&self, id: u32) {
        self.records.borrow_mut().retain(|volume| volume.id != id);
        self.nodes.borrow_mut().retain(|node| node.volume != id);
    }

    /// All volumes, and those that are about to be destroyed.
    pub(crate) fn records(&self) -> Vec<VolumeRecord> {
        self.records.borrow().clone()
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.nodes.borrow().clone()
    }

    /// Records of volumes and of nodes, and how many of each a page takes.
    pub(crate) fn lists(&self) -> [(usize, usize); 2] {
        [(self.records.borrow().len(), VOLUMES), (self.nodes.borrow().len(), NODES)]
    }

    /// A volume with this number is there, or about to be destroyed.
    pub(crate) fn is_known(&self, id: u32) -> bool {
        self.records.borrow().iter().any(|volume| volume.id == id)
    }

    /// The next volume behind that number that is there, or about to be destroyed.
    pub(crate) fn next_behind(&self, id: u32) -> Option<u32> {
        self.records.borrow().iter().map(|volume| volume.id).filter(|&other| other > id).min()
    }

    /// The volume takes requests.
    pub(crate) fn is_there(&self, id: u32) -> bool {
        self.records.borrow().iter().any(|volume| volume.id == id && !volume.destroyed)
    }

    /// Something of the volume that this is true of, if one takes requests.
    pub(crate) fn find<T>(
        &self,
        is: impl Fn(&VolumeRecord) -> bool,
        part: impl FnOnce(&VolumeRecord) -> T,
    ) -> Option<T> {
        self.records.borrow().iter().find(|volume| is(volume) && !volume.destroyed).map(part)
    }

    /// Changes the record of a volume.
    pub(crate) fn change(&self, id: u32, change: impl FnOnce(&mut VolumeRecord)) {
        if let Some(volume) = self.records.borrow_mut().iter_mut().find(|volume| volume.id == id) {
            change(volume);
        }
    }

    /// The node under which a volume is written.
    pub(crate) fn node(&self, volume: u32) -> u32 {
        self.records.borrow().iter().find(|record| record.id == volume).map_or(0, |record| record.node)
    }

    /// Bytes that all volumes have, in whole blocks.
    pub(crate) fn sold(&self) -> u64 {
        self.records.borrow().iter().map(|volume| volume.size.next_multiple_of(BLOCK as u64)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(id: u32, size: u64) -> VolumeRecord {
        VolumeRecord { id, node: id + 10, size, created: 0, destroyed: false, name: format!("v{id}") }
    }

    #[test]
    fn a_volume_goes_with_its_node() {
        let volumes = VolumeList::default();
        [volume(1, 4096), volume(2, 512)].into_iter().for_each(|volume| volumes.add(volume));
        assert_eq!((volumes.node(2), volumes.node(3), volumes.sold()), (12, 0, 8192));
        volumes.change(1, |volume| volume.destroyed = true);
        assert!(volumes.is_known(1) && !volumes.is_there(1) && volumes.is_there(2));
        assert_eq!(volumes.find(|volume| volume.name == "v1", |volume| volume.id), None);
        let (records, nodes) = (volumes.records(), volumes.nodes());
        volumes.found(records, nodes);
        assert_eq!((volumes.is_known(1), volumes.nodes().len()), (false, 1));
        volumes.remove(2);
        assert_eq!(volumes.lists().map(|(count, _)| count), [0, 0]);
    }
}
