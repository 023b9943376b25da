//! Devices of the kernel for the volumes of a server: made, given new connections after a crash, ended.

use std::rc::Rc;

use brindle_export::nbd::proto::Terms;
use brindle_io::Duration;
use brindle_io::sync::{Either, join_all, race};

use crate::answers::RequestOutcome;
use crate::attach::{Attached, Attaching, Bar, DEAD_TIMEOUT, MOST_CONNECTIONS, Scope, identifier, wanted};
use crate::content::{Content, Host};
use crate::error::HostError;
use crate::names;
use crate::service::Service;
use crate::world::{Attacher, Naming, Serving};

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

fn refused(export: &str, why: &(impl ToString + ?Sized)) -> HostError {
    HostError::Refused { name: export.to_owned(), why: why.to_string() }
}

impl Service {
    /// Makes a device of the kernel of a volume, and has udev name it.
    ///
    /// # Errors
    /// There is no such volume, it has a device or is being stopped, or the kernel makes none.
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
        let attacher = self.attacher(&export)?;
        if let Some(attached) = self.attached_to(&export)
            && !attacher.is_there(attached.index).await
        {
            self.attachments.forget(&attached);
        }
        let making = self.attachments.make(&export).map_err(|why| refused(&export, &why))?;
        let terms = self.terms(&export)?;
        self.prepare_for_own_host(&*attacher);
        let identifier = identifier(&key, &export);
        let made = attacher.make(how.index, wanted(&terms, how, identifier.clone()), self.serving(&export));
        let index = made.await.map_err(|why| refused(&export, &why))?;
        if self.terms(&export).is_err() {
            // The server has not waited for a kernel that took too long.
            drop(attacher.end(index).await);
            return Err(refused(&export, "it was stopped before it had its device"));
        }
        let attached = making.done(index);
        self.publish();
        Ok(Made { attached, identifier })
    }

    /// Has udev name devices that were made, and waits until it has, but not for ever.
    async fn named(&self, made: Vec<Made>) -> Vec<(Attached, Naming)> {
        let devices = made.iter().map(|one| (one.attached.index, one.identifier.clone())).collect();
        let namings = match self.devices.attacher() {
            Some(attacher) => attacher.name(devices).await,
            None => Vec::new(),
        };
        made.into_iter().map(|one| one.attached).zip(namings).collect()
    }

    /// The name of the volume that becomes a device: the only content, if none is said.
    pub(crate) fn meant_to_attach(&self, name: Option<&str>) -> Result<String, HostError> {
        match name {
            Some(name) => Ok(name.to_owned()),
            None => match self.one(None)? {
                content if content.is_one_export() => Ok(content.name().to_owned()),
                _ => Err(HostError::Several(self.name.clone())),
            },
        }
    }

    /// Tells the kernel that the device of a volume has another size, if it has one.
    pub(crate) fn resize_device(&self, export: &str) {
        let attached = self.attached_to(export);
        let parts = || Some((attached?, self.attachable(export).ok()?, self.terms(export).ok()?));
        let (Some((attached, (export, key), terms)), Ok(attacher)) = (parts(), self.attacher(export)) else {
            return;
        };
        let told = attacher.resize(attached.index, terms.limits.size, identifier(&key, &export));
        drop(self.io.spawn(async move {
            if let Err(why) = told.await {
                let device = attached.device();
                tracing::warn!("{export}: {device} keeps its size until it is attached again: {why}");
            }
        }));
    }

    /// Ends the device of a volume, unless it is mounted or open exclusively.
    ///
    /// # Errors
    /// It has none, it is in use, or the kernel does not end it.
    pub(crate) async fn detach(self: &Rc<Self>, name: &str) -> Result<RequestOutcome, HostError> {
        let named = |one: &Attached| one.device() == name || format!("nbd{}", one.index) == name;
        let attached = match self.attachments.there().into_iter().find(named) {
            Some(attached) => attached,
            None => {
                let (export, _) = self.attachable(name)?;
                let lacks = || refused(&export, "no device of the kernel has it");
                self.attached_to(&export).ok_or_else(lacks)?
            }
        };
        self.end_device(&attached).await?;
        if let Ok((export, key)) = self.attachable(&attached.export) {
            let identifier = identifier(&key, &export);
            self.attacher(&export)?.unname(attached.index, identifier).await;
        }
        Ok(RequestOutcome::Detached {
            name: attached.export.clone(),
            device: attached.device(),
            detached: true,
        })
    }

    async fn end_device(&self, attached: &Attached) -> Result<(), HostError> {
        let export = &attached.export;
        let attacher = self.attacher(export)?;
        let ending = self.attachments.end(attached).map_err(|why| refused(export, &why))?;
        match race(attacher.end(attached.index), self.io.sleep(PATIENCE)).await {
            Either::First(ended) => ended.map_err(|why| refused(export, &why))?,
            // To look at a device is to read it, and an array that hangs gives nothing.
            Either::Second(()) => {
                let why = format!("{} does not answer: it is left as it is", attached.device());
                return Err(refused(export, &why));
            }
        }
        ending.has_ended();
        self.publish();
        Ok(())
    }

    /// Ends the devices of exports before they are stopped. They get no others as long as the bar is there.
    ///
    /// # Errors
    /// One is in use, or the kernel does not answer: it is as it was.
    pub(crate) async fn end_devices(&self, scope: Scope) -> Result<Bar<'_>, HostError> {
        let name = match &scope {
            Scope::Of(name) => name.clone(),
            Scope::All => self.name().to_owned(),
        };
        let bar = self.attachments.bar(scope);
        loop {
            let settled = self.attachments.settled(bar.scope());
            if let Either::Second(()) = race(settled, self.io.sleep(PATIENCE)).await {
                let why = "a device of it is being made or ended, and the kernel does not answer";
                return Err(refused(&name, why));
            }
            let Some(attached) = self.attachments.one_of(bar.scope()) else { return Ok(bar) };
            self.end_device(&attached).await?;
        }
    }

    /// Makes no devices any more.
    pub(crate) fn make_no_devices(&self) {
        self.attachments.bar_all();
    }

    /// Ends all devices that are not in use; gives those that stay, each with the reason.
    pub(crate) async fn end_all_devices(&self) -> Vec<HostError> {
        race(self.attachments.settled(&Scope::All), self.io.sleep(PATIENCE)).await;
        let all = self.attachments.there();
        let ended = join_all(all.iter().map(|attached| self.end_device(attached))).await;
        ended.into_iter().filter_map(Result::err).collect()
    }

    /// Gives devices of volumes that are served here new connections, in the place of those of a server that is gone.
    pub async fn attach_again(self: Rc<Self>) {
        let Some(attacher) = self.devices.attacher() else { return };
        for pause in TRIES {
            self.io.sleep(pause).await;
            for (export, key) in self.all_attachable() {
                if self.connections_of_device(&export) > 0 && pause == TRIES[0] {
                    continue;
                }
                for (index, identifier) in attacher.devices_of(key).await {
                    if let Err(why) = self.connect_again(&*attacher, &export, identifier, index).await {
                        tracing::warn!("{why}");
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
            if self.attached_to(&export).is_some() || self.was_left_a_device(&export).await {
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

    async fn was_left_a_device(&self, export: &str) -> bool {
        let (Ok((_, key)), Some(attacher)) = (self.attachable(export), self.devices.attacher()) else {
            return false;
        };
        !attacher.devices_of(key).await.is_empty()
    }

    /// Prepares the thread for clients of its own host, once.
    pub(crate) fn prepare_for_own_host(&self, attacher: &dyn Attacher) {
        if self.attachments.prepares()
            && let Err(lacking) = attacher.prepare()
        {
            tracing::warn!(
                "when memory is short, writes to devices of this host may wait for each other: {lacking}"
            );
        }
    }

    /// Takes over a device of an earlier server. One that is this server's already gets connections where some of its own are dead.
    async fn connect_again(
        &self,
        attacher: &dyn Attacher,
        export: &str,
        identifier: String,
        index: u32,
    ) -> Result<(), HostError> {
        let making = match self.attachments.make(export) {
            Ok(making) => Some(making),
            Err(_) if self.attachments.stays(export, index) => None,
            // Its device is being made or ended, it is being stopped, or it has another device.
            Err(_) => return Ok(()),
        };
        self.prepare_for_own_host(attacher);
        let how = Attaching { index: Some(index), connections: MOST_CONNECTIONS, dead_timeout: DEAD_TIMEOUT };
        let wanted = wanted(&self.terms(export)?, how, identifier);
        let connected = attacher.connect_again(index, wanted, self.serving(export)).await;
        connected.map_err(|why| refused(export, &why))?;
        if let Some(making) = making {
            let attached = making.done(index);
            tracing::info!("{export}: it is {} again", attached.device());
            self.publish();
        }
        Ok(())
    }

    /// Forgets devices of a content that others have ended.
    pub(crate) async fn forget_ended(&self, content: &dyn Content) {
        let Some(attacher) = self.devices.attacher() else { return };
        for export in content.export_names() {
            let Some(attached) = self.attached_to(&export) else { continue };
            // One that does not answer is there.
            let is_there = race(attacher.is_there(attached.index), self.io.sleep(PATIENCE)).await;
            if matches!(is_there, Either::First(false)) {
                self.attachments.forget(&attached);
            }
        }
    }

    /// The device of an export.
    pub(crate) fn attached_to(&self, export: &str) -> Option<Attached> {
        self.attachments.of(export)
    }

    /// All exports, each with its identity on this machine.
    fn all_attachable(&self) -> Vec<(String, String)> {
        let contents = self.contents();
        let offered = contents.iter().flat_map(|content| content.exports());
        offered.map(|offered| (offered.name, offered.identity)).collect()
    }

    /// The export that is meant, by its name or by other names of a content that is one export.
    pub(crate) fn attachable(&self, name: &str) -> Result<(String, String), HostError> {
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
        let server = self.doors.for_devices();
        let terms = server.and_then(|server| server.terms(export));
        terms.ok_or_else(|| refused(export, "it is offered to no client of this machine"))
    }

    fn attacher(&self, export: &str) -> Result<Rc<dyn Attacher>, HostError> {
        let attacher = self.devices.attacher();
        attacher.ok_or_else(|| refused(export, "its world has no devices of the kernel"))
    }

    fn serving(&self, export: &str) -> Serving {
        let (doors, export) = (self.doors.clone(), export.to_owned());
        Rc::new(move |socket| {
            doors.for_devices().inspect(|server| server.serve_chosen(&export, socket));
        })
    }
}
