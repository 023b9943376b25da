//! Rights to ask, by the head of a request alone: its host, its origin, its cookie, the token of its page. Pure: any head is judged.

use hyper::header::{COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use crate::sessions::{Session, Sessions, is_same};

/// The header by which a page sends its token.
pub(crate) const PAGE_TOKEN: HeaderName = HeaderName::from_static("x-page-token");

/// The names of this machine for itself.
const OWN: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Longest path.
const LONGEST_PATH: usize = 2048;

/// The reason why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) &'static str);

const fn refusal(status: StatusCode, why: &'static str) -> Refusal {
    Refusal(status, why)
}

pub(crate) const SIGN_IN: Refusal =
    refusal(StatusCode::UNAUTHORIZED, "sign in first: `brindle console --token` prints the token");
pub(crate) const READ_ONLY: Refusal =
    refusal(StatusCode::FORBIDDEN, "this console only shows: it was started with --read-only");
pub(crate) const TOO_LARGE: Refusal = refusal(
    StatusCode::PAYLOAD_TOO_LARGE,
    "the body has more than 64 KiB: nothing that is asked here is as long",
);
pub(crate) const TOO_SLOW: Refusal =
    refusal(StatusCode::REQUEST_TIMEOUT, "the body did not come within 5 s: send it at once");
pub(crate) const CUT: Refusal = refusal(StatusCode::BAD_REQUEST, "the body is not whole: send it again");

const TWO_HOSTS: Refusal =
    refusal(StatusCode::BAD_REQUEST, "a request has one Host, and this has none or several");
const PROXIED: Refusal = refusal(StatusCode::BAD_REQUEST, "this is no proxy: ask for a path alone");
const LONG_PATH: Refusal =
    refusal(StatusCode::URI_TOO_LONG, "the path is longer than any that there is here");
const FOREIGN_HOST: Refusal = refusal(
    StatusCode::MISDIRECTED_REQUEST,
    "this console is not known by that name: `brindle console --host NAME` lets a proxy use it",
);
const FOREIGN_ORIGIN: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "the request comes from a page of another site, or does not say from which",
);
const NO_TOKEN: Refusal = refusal(StatusCode::FORBIDDEN, "the page is of another session: load it anew");
const METHOD: Refusal = refusal(StatusCode::METHOD_NOT_ALLOWED, "GET and POST are what is known here");

/// The head of a request, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The browser that has signed in.
    pub(crate) session: Option<Session>,
    /// The browser came by TLS, which a proxy ended.
    pub(crate) is_secure: bool,
}

/// Judges the head of a request. `cookie` is the name of this console's cookie, `hosts` are the names by which it may be called, besides those
/// of this machine.
///
/// # Errors
/// Why it is not answered.
pub(crate) fn admit(
    head: &Parts,
    cookie: &str,
    hosts: &[String],
    sessions: &Sessions,
) -> Result<Admitted, Refusal> {
    if head.uri.authority().is_some() {
        return Err(PROXIED);
    }
    if head.uri.path_and_query().is_some_and(|path| path.as_str().len() > LONGEST_PATH) {
        return Err(LONG_PATH);
    }
    let host = only(&head.headers, HOST).ok_or(TWO_HOSTS)?;
    if !is_own(host, hosts) {
        return Err(FOREIGN_HOST);
    }
    let origin = match head.headers.get_all(ORIGIN).iter().count() {
        0 => None,
        _ => Some(only(&head.headers, ORIGIN).ok_or(FOREIGN_ORIGIN)?),
    };
    let from = origin.map(|origin| origin.split_once("://").unwrap_or_default());
    let is_own_page = from.is_some_and(|(scheme, host_of_page)| {
        ["http", "https"].contains(&scheme) && host_of_page.eq_ignore_ascii_case(host)
    });
    if !is_own_page && (origin.is_some() || head.method == Method::POST) {
        return Err(FOREIGN_ORIGIN);
    }
    if ![Method::GET, Method::HEAD, Method::POST].contains(&head.method) {
        return Err(METHOD);
    }
    let session = secret(&head.headers, cookie).and_then(|secret| sessions.of(secret));
    Ok(Admitted { session, is_secure: from.is_some_and(|(scheme, _)| scheme == "https") })
}

/// The session of a request that changes something: its page's token goes with it.
///
/// # Errors
/// Nobody has signed in, or the page is another's.
pub(crate) fn changes(head: &Parts, admitted: &Admitted) -> Result<Session, Refusal> {
    let session = admitted.session.clone().ok_or(SIGN_IN)?;
    let token = only(&head.headers, PAGE_TOKEN).ok_or(NO_TOKEN)?;
    if is_same(token, &session.page_token) { Ok(session) } else { Err(NO_TOKEN) }
}

/// The value of a header that stands there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Whether a host, with its port or without, is this console's. A browser that was led here by another name has that as its host.
fn is_own(host: &str, hosts: &[String]) -> bool {
    let end = if host.starts_with('[') { host.find(']').map(|at| at + 1) } else { host.find(':') };
    let (name, port) = host.split_at(end.unwrap_or(host.len()));
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let is = |own: &str| own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(host);
    is_port && (OWN.into_iter().any(is) || hosts.iter().any(|own| is(own)))
}

/// The secret of the cookie of that name.
fn secret<'a>(headers: &'a HeaderMap, cookie: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    all.flat_map(|line| line.split(';'))
        .filter_map(|one| one.trim().split_once('='))
        .find(|(name, _)| *name == cookie)
        .map(|(_, secret)| secret)
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
        let begun = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(begun, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn judged(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Admitted, u16> {
        let sessions = Sessions::new(TOKEN).unwrap();
        let hosts = ["nas.example.org".to_owned(), "box:8443".to_owned()];
        admit(&head(method, path, headers), "c", &hosts, &sessions).map_err(|refusal| refusal.0.as_u16())
    }

    #[test]
    fn only_names_of_this_machine_and_those_that_were_said_are_answered() {
        for own in [
            "localhost",
            "127.0.0.1:8383",
            "[::1]:1",
            "[::1]",
            "LOCALHOST:9",
            "nas.example.org",
            "nas.example.org:443",
            "box:8443",
        ] {
            assert!(judged("GET", "/", &[("host", own)]).is_ok(), "{own}");
        }
        for foreign in [
            "evil.example",
            "127.0.0.1.evil.example",
            "box",
            "box:8444",
            "localhost:x",
            "localhost:99999",
            "",
            "[::2]",
            "[::1]x",
            "10.0.0.1",
        ] {
            assert_eq!(judged("GET", "/", &[("host", foreign)]), Err(421), "{foreign}");
        }
        assert_eq!(judged("GET", "/", &[]), Err(400));
        assert_eq!(judged("GET", "/", &[("host", "localhost"), ("host", "localhost")]), Err(400));
        assert_eq!(judged("GET", "http://localhost/", &[("host", "localhost")]), Err(400));
        assert_eq!(judged("GET", &format!("/{}", "x".repeat(3000)), &[("host", "localhost")]), Err(414));
    }

    #[test]
    fn a_change_comes_from_an_own_page() {
        let with = |method: &str, origin: &[&str]| {
            let mut headers = vec![("host", "localhost:8383")];
            headers.extend(origin.iter().map(|origin| ("origin", *origin)));
            judged(method, "/api/v1/orders", &headers).map(|admitted| admitted.is_secure)
        };
        assert_eq!(with("POST", &["http://localhost:8383"]), Ok(false));
        assert_eq!(with("POST", &["https://localhost:8383"]), Ok(true));
        for foreign in
            ["http://evil.example", "null", "", "http://localhost", "file://localhost:8383", "localhost:8383"]
        {
            assert_eq!(with("POST", &[foreign]), Err(403), "{foreign}");
            assert_eq!(with("GET", &[foreign]), Err(403), "{foreign}");
        }
        assert_eq!(with("POST", &[]), Err(403));
        assert_eq!(with("POST", &["http://localhost:8383", "http://localhost:8383"]), Err(403));
        assert_eq!(with("GET", &[]), Ok(false));
        assert_eq!(with("DELETE", &["http://localhost:8383"]), Err(405));
    }

    #[test]
    fn a_cookie_is_that_of_a_session_and_a_change_needs_the_token_of_its_page() {
        let sessions = Sessions::new(TOKEN).unwrap();
        let session = sessions.sign_in(TOKEN).unwrap();
        let asked = |cookie: &str, token: Option<&str>| {
            let mut headers = vec![("host", "localhost"), ("origin", "http://localhost"), ("cookie", cookie)];
            headers.extend(token.map(|token| ("x-page-token", token)));
            let head = head("POST", "/", &headers);
            let admitted = admit(&head, "c", &[], &sessions).unwrap();
            changes(&head, &admitted).map(|session| session.number).map_err(|refusal| refusal.0.as_u16())
        };
        let own = format!("other=1; c={}; x", session.secret);
        assert_eq!(asked(&own, Some(&session.page_token)), Ok(1));
        assert_eq!(asked(&own, None), Err(403));
        assert_eq!(asked(&own, Some("wrong")), Err(403));
        for foreign in ["", "c", "c=", "c=wrong", &format!("d={}", session.secret)] {
            assert_eq!(asked(foreign, Some(&session.page_token)), Err(401), "{foreign}");
        }
    }
}
