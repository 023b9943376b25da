//! Requests as they are judged, without a connection: for what tries any of them.

use hyper::Request;

use crate::guard;
use crate::orders::{self, Unfit};
use crate::program;
use crate::sessions::{Session, Sessions};
use crate::strict;

/// The token of trials.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The name by which a proxy calls the console of trials.
pub const PROXY: &str = "nas.example.org";

/// A console at which one browser has signed in.
pub struct Trial {
    sessions: Sessions,
    session: Session,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It is refused, with this status of HTTP.
    Refused(u16),
    /// It is answered by what is known; whether the browser has signed in.
    Shown(bool),
    /// It may change something, and its body is an order.
    Order {
        /// The server.
        server: String,
        /// The word of the request.
        ask: &'static str,
        /// The command that does the same.
        command: String,
    },
    /// It may change something, and its body is no order, or one that is not given from here, with the reason.
    NoOrder(String),
}

impl Trial {
    /// # Panics
    /// If there is no chance for secrets.
    #[allow(clippy::new_without_default, reason = "it draws secrets")]
    pub fn new() -> Self {
        let sessions = Sessions::new(TOKEN).expect("a long token");
        let session = sessions.sign_in(TOKEN).expect("chance for secrets");
        Self { sessions, session }
    }

    /// The cookie of the browser that has signed in.
    pub fn cookie(&self) -> String {
        format!("c={}", self.session.secret)
    }

    /// The token of its pages.
    pub fn page_token(&self) -> &str {
        &self.session.page_token
    }

    /// Judges a request as the console does.
    pub fn judge(
        &self,
        (method, uri): (&[u8], &[u8]),
        headers: &[(Vec<u8>, Vec<u8>)],
        body: &[u8],
    ) -> Judged {
        let begun = Request::builder().method(method).uri(uri);
        let request =
            headers.iter().fold(begun, |request, (name, value)| request.header(&name[..], &value[..]));
        let Ok(request) = request.body(()) else { return Judged::Refused(400) };
        let (head, ()) = request.into_parts();
        // It is text from anybody.
        let _ = program::flags(head.uri.query().unwrap_or_default());
        let admitted = match guard::admit(&head, "c", &[PROXY.to_owned()], &self.sessions) {
            Ok(admitted) => admitted,
            Err(refusal) => return Judged::Refused(refusal.0.as_u16()),
        };
        if head.method != hyper::Method::POST {
            return Judged::Shown(admitted.session.is_some());
        }
        if let Err(refusal) = guard::changes(&head, &admitted) {
            return Judged::Refused(refusal.0.as_u16());
        }
        match orders::read(body, 0) {
            Ok(order) => {
                Judged::Order { server: order.server, ask: order.request.ask.name(), command: order.command }
            }
            Err(Unfit(_, why)) => Judged::NoOrder(why),
        }
    }

    /// JSON as it is taken from others, and why it is not.
    ///
    /// # Errors
    /// The reason.
    pub fn json(&self, bytes: &[u8]) -> Result<serde_json::Value, String> {
        strict::read(bytes)
    }
}
