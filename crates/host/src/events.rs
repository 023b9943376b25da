//! News of contents, for listeners.

use std::rc::Rc;

use crate::status::EventStatus;

/// News for listeners, sent as it happens.
#[derive(Clone, Debug)]
pub enum News {
    /// Something has happened to an array, or to one that is its member.
    Event {
        /// The array's name, of a host of several.
        name: Option<String>,
        /// The event.
        event: Box<EventStatus>,
    },
    /// An array has stopped well.
    Stopped {
        /// The array's name.
        name: String,
        /// Its end, for people.
        words: &'static str,
        /// The host was started with several arrays.
        several: bool,
    },
}

/// A function that gets each event. It must not wait.
pub type Listener = Rc<dyn Fn(News)>;
