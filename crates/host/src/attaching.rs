//! Devices of the kernel for the volumes of a server: made, given new connections after a crash, ended.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brindle_export::nbd::proto::Terms;
use brindle_io::Duration;
use brindle_io::sync::{Either, join_all, race};

use crate::answers::RequestOutcome;
use crate::attach::{
    Attached, Attaching, DEAD_TIMEOUT, Driver, MOST_CONNECTIONS, Naming, announce, devices_of, identifier,
    in_use, is_in_use, name, pairs, serve_own_host, unname, wanted,
};
use crate::content::{Content, Host};
use crate::error::HostError;
use crate::mailbox;
use crate::names;
use crate::service::Service;

/// Where the kernel tells of its block devices.
const BLOCK: &str = "/sys/block";
/// Time that a device may take to say whether it is in use, and to end.
const PATIENCE: Duration = Duration::from_millis(5_000);
/// Connections of a device that settings ask for.
const CONNECTIONS: u8 = 2;
/// Pauses before the tries to give a device new connections: the old ones may not have gone at once.
const TRIES: [Duration; 3] =
    [Duration::from_millis(0), Duration::from_millis(1_000), Duration::from_millis(5_000)];

/// A device of the kernel that was made just now.
struct Made {
    attached: Attached,
    identifier: String,
}

impl Service {
    /// Makes a device of the kernel of a volume, and has udev name it.
    ///
    /// # Errors
    /// There is no such volume, it has a device, or the kernel makes none.
    pub(crate) async fn attach(
        self: &Rc<Self>,
        name: &str,
        how: Attaching,
    ) -> Result<RequestOutcome, HostError> {
        let made = self.make_device(name, how).await?;
        let (name, device) = (made.attached.export.clone(), made.attached.device());
        let naming = self.named(vec![made]).await.pop().map_or(Naming::NoUdev, |(_, naming)| naming);
        Ok(RequestOutcome::Attached { name, device, link: naming.name(), remark: naming.remark() })
    }

    /// Makes a device of the kernel of a volume, which udev does not know yet.
    async fn make_device(self: &Rc<Self>, name: &str, how: Attaching) -> Result<Made, HostError> {
        let (export, key) = self.attachable(name)?;
        if let Some(attached) = self.attached_to(&export) {
            let why = format!("it is attached already, as {}", attached.device());
            return Err(HostError::Refused { name: export, why });
        }
        let refused = |why: String| HostError::Refused { name: export.clone(), why };
        let terms = self.terms(&export)?;
        let (own, theirs) = pairs(how.connections.clamp(1, MOST_CONNECTIONS)).map_err(refused)?;
        self.serve_sockets(&export, own)?;
        self.prepare_for_own_host();
        let identifier = identifier(&key, &export);
        let wanted = wanted(&terms, how, identifier.clone(), &theirs);
        let asked = mailbox::on_thread(&self.io, "attach", move || {
            let _theirs = theirs;
            Driver::find()?.connect(&wanted)
        });
        let index = asked.await.map_err(refused)?;
        let attached = Attached { export, index };
        self.attached.borrow_mut().push(attached.clone());
        self.publish();
        Ok(Made { attached, identifier })
    }

    /// Has udev name devices that were made, and waits until it has, but not for ever.
    async fn named(&self, made: Vec<Made>) -> Vec<(Attached, Naming)> {
        mailbox::on_thread(&self.io, "udev", move || {
            let devices: Vec<_> =
                made.iter().map(|one| (one.attached.index, one.identifier.clone())).collect();
            name(Path::new(BLOCK), &devices);
            let naming = |one: Made| {
                let naming = Naming::of(one.attached.index, &one.identifier);
                (one.attached, naming)
            };
            made.into_iter().map(naming).collect()
        })
        .await
    }

    /// Ends the device of a volume, unless somebody has it open for himself.
    ///
    /// # Errors
    /// It has none, it is in use, or the kernel does not end it.
    pub(crate) async fn detach(self: &Rc<Self>, name: &str) -> Result<RequestOutcome, HostError> {
        let named = |one: &Attached| one.device() == name || format!("nbd{}", one.index) == name;
        let by_device = self.attached.borrow().iter().find(|one| named(one)).cloned();
        let attached = match by_device {
            Some(attached) => attached,
            None => {
                let (export, _) = self.attachable(name)?;
                let why = "no device of the kernel has it".to_owned();
                self.attached_to(&export).ok_or(HostError::Refused { name: export, why })?
            }
        };
        self.end_device(&attached).await?;
        if let Ok((export, key)) = self.attachable(&attached.export) {
            let (index, identifier) = (attached.index, identifier(&key, &export));
            mailbox::on_thread(&self.io, "udev", move || unname(Path::new(BLOCK), index, &identifier)).await;
        }
        Ok(RequestOutcome::Detached {
            name: attached.export.clone(),
            device: attached.device(),
            detached: true,
        })
    }

    async fn end_device(&self, attached: &Attached) -> Result<(), HostError> {
        let (device, index) = (attached.device(), attached.index);
        let given_up = Arc::new(AtomicBool::new(false));
        let too_late = Arc::clone(&given_up);
        let ended = mailbox::on_thread(&self.io, "detach", move || {
            if is_in_use(Path::new(&device)) {
                return Err(in_use(&device));
            }
            // The answer has been that it is left as it is.
            if too_late.load(Ordering::Acquire) {
                return Ok(());
            }
            Driver::find()?.disconnect(index)?;
            announce(Path::new(BLOCK), index);
            Ok(())
        });
        let refused = |why: String| HostError::Refused { name: attached.export.clone(), why };
        match race(ended, self.io.sleep(PATIENCE)).await {
            Either::First(ended) => ended.map_err(refused)?,
            // To look at a device is to read it, and an array that hangs gives nothing.
            Either::Second(()) => {
                given_up.store(true, Ordering::Release);
                return Err(refused(format!("{} does not answer: it is left as it is", attached.device())));
            }
        }
        self.attached.borrow_mut().retain(|one| one != attached);
        self.publish();
        Ok(())
    }

    /// Ends the devices of these exports before they are stopped.
    ///
    /// # Errors
    /// One is in use: it is as it was.
    pub(crate) async fn end_devices(&self, exports: impl Fn(&str) -> bool) -> Result<(), HostError> {
        let all: Vec<Attached> =
            self.attached.borrow().iter().filter(|one| exports(&one.export)).cloned().collect();
        for attached in all {
            self.end_device(&attached).await?;
        }
        Ok(())
    }

    /// Ends all devices that nobody uses; gives those that stay, each with the reason.
    pub(crate) async fn end_all_devices(&self) -> Vec<HostError> {
        let all: Vec<Attached> = self.attached.borrow().clone();
        let ended = join_all(all.iter().map(|attached| self.end_device(attached))).await;
        ended.into_iter().filter_map(Result::err).collect()
    }

    /// Gives devices of volumes that are served here new connections, in the place of those of a server that is gone.
    pub async fn attach_again(self: Rc<Self>) {
        for pause in TRIES {
            self.io.sleep(pause).await;
            for (export, key) in self.all_attachable() {
                if self.connections_of_device(&export) > 0 && pause == TRIES[0] {
                    continue;
                }
                for (index, identifier) in devices_of(Path::new(BLOCK), &key) {
                    if let Err(why) = self.connect_again(&export, identifier, index).await {
                        tracing::warn!("{export}: {why}");
                    }
                }
            }
        }
    }

    /// Makes devices of those volumes that are to have one and that no earlier server left one. A failure is told, and ends nothing:
    /// clients by the network are served all the same.
    pub async fn attach_wanted(self: Rc<Self>, wanted: impl Fn(&str, &str) -> bool) {
        let is_wanted = |content: &&Rc<dyn Content>| wanted(content.name(), &content.uuid());
        let contents = self.contents();
        let exports: Vec<String> =
            contents.iter().filter(is_wanted).flat_map(|content| content.export_names()).collect();
        let how = Attaching { index: None, connections: CONNECTIONS, dead_timeout: DEAD_TIMEOUT };
        let mut made = Vec::new();
        for export in exports {
            let is_there =
                self.attachable(&export).is_ok_and(|(_, key)| !devices_of(Path::new(BLOCK), &key).is_empty());
            if is_there || self.attached_to(&export).is_some() {
                continue;
            }
            match self.make_device(&export, how).await {
                Ok(one) => made.push(one),
                Err(why) => tracing::warn!("{export}: it is not attached, which its settings ask for: {why}"),
            }
        }
        // udev names all of them at once.
        for (attached, naming) in self.named(made).await {
            let (export, device) = (&attached.export, attached.device());
            match (naming.name(), naming.remark()) {
                (Some(name), _) => tracing::info!("{export}: it is {device}, named {name}"),
                (None, None) => tracing::info!("{export}: it is {device}"),
                (None, Some(remark)) => tracing::warn!("{export}: it is {device}; {remark}"),
            }
        }
    }

    /// Prepares the thread for clients of its own host, once.
    fn prepare_for_own_host(&self) {
        if !self.serves_own_host.replace(true)
            && let Err(lacking) = serve_own_host()
        {
            tracing::warn!(
                "when memory is short, writes to devices of this host may wait for each other: {lacking}"
            );
        }
    }

    async fn connect_again(&self, export: &str, identifier: String, index: u32) -> Result<(), HostError> {
        self.prepare_for_own_host();
        let terms = self.terms(export)?;
        let refused = |why: String| HostError::Refused { name: export.to_owned(), why };
        let (own, theirs) = pairs(MOST_CONNECTIONS).map_err(refused)?;
        self.serve_sockets(export, own)?;
        let how = Attaching { index: Some(index), connections: MOST_CONNECTIONS, dead_timeout: DEAD_TIMEOUT };
        let wanted = wanted(&terms, how, identifier, &theirs);
        let asked = mailbox::on_thread(&self.io, "attach", move || {
            let _theirs = theirs;
            Driver::find()?.reconfigure(index, &wanted)
        });
        asked.await.map_err(refused)?;
        let attached = Attached { export: export.to_owned(), index };
        if !self.attached.borrow().contains(&attached) {
            tracing::info!("{export}: it is {} again", attached.device());
            self.attached.borrow_mut().push(attached);
            self.publish();
        }
        Ok(())
    }

    /// The device of an export.
    pub(crate) fn attached_to(&self, export: &str) -> Option<Attached> {
        self.attached.borrow().iter().find(|one| one.export == export).cloned()
    }

    /// All exports, each with its identity on this machine.
    fn all_attachable(&self) -> Vec<(String, String)> {
        let contents = self.contents();
        let offered = contents.iter().flat_map(|content| content.exports());
        offered.map(|offered| (offered.name, offered.identity)).collect()
    }

    /// The export that is meant, by its name or by other names of a content that is one export.
    fn attachable(&self, name: &str) -> Result<(String, String), HostError> {
        let all = self.all_attachable();
        let contents = self.contents();
        let names: Vec<_> = contents.iter().map(|content| content.names()).collect();
        let called = names::find(&names, name).map(|at| &contents[at]);
        let own = called.filter(|content| content.is_one_export()).map(|content| content.name());
        let meant = own.unwrap_or(name);
        let known = || all.iter().map(|(export, _)| export.clone()).collect();
        all.iter().find(|(export, _)| export == meant).cloned().ok_or_else(|| HostError::NoSuchContent {
            server: self.name().to_owned(),
            array: name.to_owned(),
            known: known(),
        })
    }

    /// Connections of the kernel, and of others that come by the same door.
    fn connections_of_device(&self, export: &str) -> usize {
        self.doors.for_devices().map_or(0, |server| server.connections_of(export))
    }

    fn terms(&self, export: &str) -> Result<Terms, HostError> {
        self.doors.for_devices().and_then(|server| server.terms(export)).ok_or_else(|| HostError::Refused {
            name: export.to_owned(),
            why: "it is offered to no client of this machine".to_owned(),
        })
    }

    fn serve_sockets(&self, export: &str, sockets: Vec<OwnedFd>) -> Result<(), HostError> {
        for socket in sockets {
            let socket = self
                .devices
                .add_stream(socket)
                .map_err(|why| HostError::Refused { name: export.to_owned(), why: why.to_string() })?;
            self.doors.for_devices().inspect(|server| server.serve_chosen(export, socket));
        }
        Ok(())
    }
}
