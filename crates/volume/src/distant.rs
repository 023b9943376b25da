//! A volume as it is handed to another executor.

use core::any::Any;
use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use crate::Limits;

/// A ticket with which an executor carries out some requests of a volume of another's: who made it knows what it is.
pub type Ticket = Arc<dyn Any + Send + Sync>;

/// A volume as it is handed to another executor.
#[derive(Clone)]
pub struct Distant {
    /// The number by which its home knows it.
    pub number: u32,
    /// Its limits when it was handed over.
    pub limits: Limits,
    /// A ticket, if some of its requests can be carried out elsewhere.
    pub ticket: Option<Ticket>,
    /// Its clients may ask for so much a second only, which home counts. Home alone stores, and a request looks when it begins: nothing
    /// relies on the moment.
    pub paced: Arc<AtomicBool>,
    /// Others hold it against changes: home refuses them. Home alone stores, and then waits for [the changes](crate::Volume::others_ended)
    /// that have begun elsewhere.
    pub closed: Arc<AtomicBool>,
}
