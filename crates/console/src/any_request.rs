//! Requests made of parts of good ones, by a seed: none is admitted without all that an order needs, and none breaks anything.

use hyper::Request;

use crate::sessions::Sessions;
use crate::{guard, orders, strict};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.next(all.len())]
    }

    /// The first, which is good, more often than the others.
    fn mostly_first<'a>(&mut self, all: &[&'a str]) -> &'a str {
        if self.next(4) > 0 { all[0] } else { self.of(all) }
    }
}

#[test]
fn no_head_is_admitted_that_lacks_anything() {
    let sessions = Sessions::new(TOKEN).unwrap();
    let session = sessions.sign_in(TOKEN).unwrap();
    let (cookie, foreign) = (format!("c={}", session.secret), format!("d={}", session.secret));
    let several = format!("x=1; {cookie}");
    let hosts = [
        "localhost:80",
        "127.0.0.1",
        "nas",
        "evil",
        "localhost:80@evil",
        "[::1",
        "",
        "nas:443\t",
        "localhost.evil",
    ];
    let origins = [
        "http://localhost:80",
        "https://nas",
        "http://127.0.0.1",
        "http://evil",
        "null",
        "http://",
        "localhost:80",
    ];
    let cookies = [&*cookie, &*several, &*foreign, "c=", "c", "", "c=c=c", &session.secret];
    let tokens = [&*session.page_token, &*session.secret, "", TOKEN, "x"];
    let names = ["host", "origin", "cookie", "x-page-token", "Host", "ORIGIN", "x-forwarded-host"];
    let mut chance = Chance(7);
    let mut admitted = 0;
    for _ in 0..60_000 {
        let method = chance.of(&["POST", "POST", "GET", "PUT", "OPTIONS", "BREW"]);
        let mut request = Request::builder().method(method).uri(chance.of(&[
            "/",
            "/api/v1/orders",
            "*",
            "http://localhost:80/",
        ]));
        let mut given: Vec<(String, String)> = Vec::new();
        for _ in 0..2 + chance.next(5) {
            let name = chance.of(&names).to_lowercase();
            let value = match &*name {
                "host" | "x-forwarded-host" => chance.mostly_first(&hosts),
                "origin" => chance.mostly_first(&origins),
                "cookie" => chance.mostly_first(&cookies),
                _ => chance.mostly_first(&tokens),
            };
            request = request.header(&*name, value);
            given.push((name, value.to_owned()));
        }
        let Ok(request) = request.body(()) else { continue };
        let (head, ()) = request.into_parts();
        let Ok(judged) = guard::admit(&head, "c", &["nas".to_owned()], &sessions) else { continue };
        if method != "POST" || guard::changes(&head, &judged).is_err() {
            continue;
        }
        admitted += 1;
        let all = |wanted: &str| {
            given.iter().filter(|(name, _)| name == wanted).map(|(_, value)| &**value).collect::<Vec<_>>()
        };
        let (host, origin) = (all("host"), all("origin"));
        assert!(host.len() == 1 && ["localhost:80", "127.0.0.1", "nas"].contains(&host[0]), "{given:?}");
        assert!(origin.len() == 1 && origin[0].split_once("://").unwrap().1 == host[0], "{given:?}");
        assert_eq!(all("x-page-token"), [&session.page_token], "{given:?}");
        assert!(all("cookie").iter().any(|value| value.contains(&cookie)), "{given:?}");
    }
    assert!(admitted > 20, "{admitted}");
}

#[test]
fn no_body_breaks_anything_or_orders_what_pages_do_not() {
    let good = [
        r#"{"server":"s","ask":"add","array":"d","devices":["/dev/a"],"force":true,"typed":"/dev/a"}"#,
        r#"{"server":"s","ask":"pool-replace","pool":"p","member":"0.1","with":"/dev/a"}"#,
        r#"{"server":"s","ask":"action","array":"d","action":"check"}"#,
    ];
    let parts = [
        "\"stop\"",
        "\"takeover\"",
        "\"fail\"",
        "{",
        "}",
        "[",
        "null",
        "1e999",
        "\"\\ud800\"",
        "\"ask\":",
        ",",
        "\u{0}",
        "true",
        "\"force\"",
    ];
    let mut chance = Chance(11);
    let mut taken = 0;
    for _ in 0..60_000 {
        let mut body = chance.of(&good).as_bytes().to_vec();
        for _ in 0..chance.next(3) {
            let (at, part) = (chance.next(body.len()), chance.of(&parts).as_bytes());
            let end = (at + chance.next(12)).min(body.len());
            body.splice(at..end, part.iter().copied());
        }
        drop(strict::read(&body));
        if let Ok(order) = orders::read(&body, 0) {
            taken += 1;
            let known =
                ["action", "add", "replace", "remove", "pool-online", "pool-replace", "export", "disconnect"];
            assert!(known.contains(&order.request.ask.name()), "{order:?}");
            assert!(order.command.starts_with("brindle ") && crate::ask::is_name(&order.server), "{order:?}");
        }
    }
    assert!(taken > 1000, "{taken}");
}
