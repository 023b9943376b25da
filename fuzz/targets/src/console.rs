//! Requests to the console. Input: a line with method and path, lines of headers, an empty line, the body. `{cookie}` and `{token}` stand for
//! what a browser has that has signed in.

use brindle_console::trial::{Judged, PROXY, TOKEN, Trial};

/// Requests that pages may make.
const KNOWN: [&str; 8] =
    ["action", "add", "replace", "remove", "pool-online", "pool-replace", "export", "disconnect"];

/// Judges the request: nothing is ordered without all that an order needs.
pub fn run(data: &[u8]) {
    let trial = Trial::new();
    let (head, body) = split(data, b"\n\n");
    let mut lines = head.split(|byte| *byte == b'\n');
    let (method, uri) = split(lines.next().unwrap_or_default(), b" ");
    let header = |line: &[u8]| {
        let (name, value) = split(line, b": ");
        (name.to_vec(), filled(value, &trial))
    };
    let headers: Vec<(Vec<u8>, Vec<u8>)> = lines.take(64).map(header).collect();
    let judged = trial.judge((method, uri), &headers, body);
    let all = |wanted: &str| {
        let named = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
        named.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
    };
    let has_cookie = all("cookie").iter().any(|value| value.contains(&trial.cookie()));
    match &judged {
        Judged::Refused(status) => assert!((400..500).contains(status), "{status}"),
        Judged::Shown(signed_in) => assert!(!signed_in || has_cookie),
        Judged::Order { .. } | Judged::NoOrder(_) => {
            assert!(has_cookie && all("x-page-token") == [trial.page_token()]);
            let (host, origin) = (all("host"), all("origin"));
            assert!(host.len() == 1 && origin.len() == 1 && is_own(&host[0]), "{host:?}");
            let from = origin[0].split_once("://").expect("a scheme").1;
            assert!(from.eq_ignore_ascii_case(&host[0]), "{origin:?} of {host:?}");
        }
    }
    match judged {
        Judged::Order { server, ask, command } => {
            assert!(KNOWN.contains(&ask) && command.starts_with("brindle "), "{command}");
            assert!(!server.contains(['/', '\n', '\0']) && !server.starts_with('.'), "{server:?}");
            let told = trial.json(body).expect("what was read");
            let forced = told["force"] == true;
            let device = told["with"].as_str().or_else(|| told["devices"][0].as_str());
            assert!(!forced || told["typed"].as_str() == device, "{told}");
        }
        Judged::NoOrder(why) => {
            assert!(!why.is_empty() && !why.contains(char::is_control), "{why:?}");
        }
        Judged::Refused(_) | Judged::Shown(_) => {}
    }
    if let Err(why) = trial.json(body) {
        assert!(why.len() < 6 * body.len() + 200, "{why}");
        assert!(!why.contains(TOKEN));
    }
}

/// A name of this machine, or that of the proxy, and a port.
fn is_own(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(
        host,
        |(name, port)| {
            if port.parse::<u16>().is_ok() { name } else { host }
        },
    );
    ["localhost", "127.0.0.1", "[::1]", PROXY].iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> (&'a [u8], &'a [u8]) {
    match text.windows(by.len()).position(|part| part == by) {
        Some(at) => (&text[..at], &text[at + by.len()..]),
        None => (text, &[]),
    }
}

/// With the secrets in their places.
fn filled(value: &[u8], trial: &Trial) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(value) else { return value.to_vec() };
    text.replace("{cookie}", &trial.cookie()).replace("{token}", trial.page_token()).into_bytes()
}
