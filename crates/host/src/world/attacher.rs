//! The kernel's devices as a host asks its world for them.

use std::rc::Rc;

use brindle_io::SocketId;

use super::{Pending, Refused};

/// Serves the server's end of a connection of a device.
pub type Serving = Rc<dyn Fn(SocketId)>;

/// A device that is to be made, or to have new connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedDevice {
    /// Bytes.
    pub size: u64,
    /// Bytes of a logical block.
    pub block: u64,
    /// Abilities of the export, as NBD's handshake has them.
    pub flags: u16,
    /// Seconds for which requests wait when all connections are gone.
    pub dead_timeout: u64,
    /// By its first word the device is found again, by its second udev names it. Devices keep it for good.
    pub identifier: String,
    /// The number of connections.
    pub connections: u8,
}

/// The name of a device below `/dev/brindle`, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The name, which leads to the device.
    Named(String),
    /// udev does not run here.
    NoUdev,
    /// The name that udev should have given: it does not lead to the device.
    Unnamed(String),
}

impl Naming {
    /// The name, if it is there.
    pub(crate) fn name(&self) -> Option<String> {
        if let Self::Named(name) = self { Some(name.clone()) } else { None }
    }

    /// For people: the reason why there is no name.
    pub(crate) fn remark(&self) -> Option<String> {
        let Self::Unnamed(name) = self else { return None };
        Some(format!(
            "udev has not named it {name}: either another device has that name, or udev is late, or it lacks the rule 62-brindle.rules"
        ))
    }
}

/// Devices of the kernel of one world, by their numbers. All of it is asked on the reactor's thread, and none of it waits there.
pub trait Attacher {
    /// Prepares the reactor's thread for clients of its own host, whose memory is freed by the writes that it serves.
    ///
    /// # Errors
    /// Rights are missing: the text says which, and what to do. The thread serves all the same.
    fn prepare(&self) -> Result<(), Refused>;

    /// Makes a device, the first that is free if no number is said, and gives its number. Each connection is served before the kernel
    /// hears of the device, which it reads at once.
    fn make(&self, index: Option<u32>, wanted: WantedDevice, serve: Serving)
    -> Pending<Result<u32, Refused>>;

    /// Gives a device that carries the same identifier new connections in the place of those that are dead.
    fn connect_again(&self, index: u32, wanted: WantedDevice, serve: Serving)
    -> Pending<Result<(), Refused>>;

    /// Tells the kernel that a device that carries this identifier has another size.
    fn resize(&self, _index: u32, _size: u64, _identifier: String) -> Pending<Result<(), Refused>> {
        Box::pin(core::future::ready(Ok(())))
    }

    /// Ends a device; one that is not there has ended. It is refused if the device is mounted or open exclusively. Dropped before it is
    /// known whether it is, the device is left as it is.
    fn end(&self, index: u32) -> Pending<Result<(), Refused>>;

    /// Whether the device has a volume: others can end it, too.
    fn is_there(&self, index: u32) -> Pending<bool>;

    /// Devices whose identifier has this first word: their numbers, and the whole identifiers.
    fn devices_of(&self, key: String) -> Pending<Vec<(u32, String)>>;

    /// Has udev name devices with these identifiers, and waits until it has, but not for ever. In their order.
    fn name(&self, devices: Vec<(u32, String)>) -> Pending<Vec<Naming>>;

    /// Waits until the name of a device that has ended is gone, but not for ever.
    fn unname(&self, index: u32, identifier: String) -> Pending<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_missing_is_remarked_where_udev_runs() {
        assert_eq!(Naming::NoUdev.remark(), None);
        let late = Naming::Unnamed("/dev/brindle/data".to_owned()).remark().unwrap();
        assert!(late.starts_with("udev has not named it /dev/brindle/data: "), "{late}");
    }
}
