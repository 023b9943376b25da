//! Requests that are not as a browser makes them, and orders without a right: refused with a reason, and nothing is changed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use brindle_testkit::skip::or_skip;
use serde_json::{Value, json};

use crate::world::{Console, Place, Running, until};

fn served() -> Option<(Place, Running, Console)> {
    let place = or_skip(Place::new())?;
    place.array("5", "data", 3);
    place.disk("spare", 64);
    let daemon = place.daemon("[[arrays]]\nname = \"data\"\n[tuning]\nmemory = \"32M\"\n");
    let console = place.console(&["--host", "nas.example.org"]);
    Some((place, daemon, console))
}

fn state(place: &Place) -> Value {
    let told: Value = serde_json::from_str(&place.run(&["status", "data", "--json"])).unwrap();
    told["array"]["devices"].as_array().unwrap().iter().map(|device| device["path"].clone()).collect()
}

#[test]
fn only_a_page_of_its_own_with_its_cookie_and_its_token_orders() {
    let Some((place, _daemon, console)) = served() else { return };
    let spare = place.path("disks/spare");
    let add = json!({"server": "brindle", "ask": "add", "array": "data", "devices": [spare]});
    let before = state(&place);
    let session = console.sign_in();
    let with = |from: &str, to: &str| -> Vec<String> {
        let changed = session
            .headers
            .iter()
            .map(|header| if header.starts_with(from) { to.to_owned() } else { header.clone() });
        changed.collect()
    };
    let host = |name: &str| [session.without("Host"), vec![format!("Host: {name}")]].concat();
    for (headers, status) in [
        (session.without("Cookie"), 401),
        (with("Cookie", "Cookie: brindle-00000000=0000"), 401),
        (session.without("Origin"), 403),
        (with("Origin", "Origin: http://evil.example"), 403),
        (with("Origin", "Origin: null"), 403),
        (session.without("X-Page-Token"), 403),
        (with("X-Page-Token", "X-Page-Token: wrong"), 403),
        (host("evil.example"), 421),
        (session.without("Host"), 400),
        ([session.headers.clone(), host("localhost")].concat(), 400),
    ] {
        let answer = console.ask("POST", "/api/v1/orders", &headers, &add.to_string());
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
        assert!(answer.json()["error"].is_string(), "{answer:?}");
    }
    // Another session's token is none of this one.
    let other = console.sign_in();
    let token = other.headers.last().unwrap();
    assert_eq!(
        console.ask("POST", "/api/v1/orders", &with("X-Page-Token", token), &add.to_string()).status,
        403
    );
    for token in ["", "x", &console.token[1..], &console.token.to_uppercase()] {
        let answer = console.ask("POST", "/login", &console.own(), &format!("token={token}"));
        assert_eq!(answer.status, 403, "{answer:?}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(state(&place), before);
    // Signed out, the cookie is nobody's.
    assert_eq!(console.ask("POST", "/api/v1/sign-out", &other.headers, "").status, 204);
    assert_eq!(other.get(&console, "/api/v1/overview").status, 401);
    // And as it should be, it is done and logged.
    let done = session.order(&console, &add);
    assert_eq!(done.status, 200, "{done:?}");
    assert_ne!(state(&place), before);
    let log = console.log();
    assert!(log.contains("(session 1)") && log.contains("brindle add data") && log.contains("done"), "{log}");
    assert!(!log.contains(&console.token), "the token is in the log");
}

#[test]
fn no_answer_without_a_cookie_tells_anything() {
    let Some((_place, _daemon, console)) = served() else { return };
    let host = [format!("Host: {}", console.address)];
    for path in
        ["/", "/events", "/of/brindle/data", "/login", "/nowhere", "/assets/app.js", "/assets/nothing"]
    {
        let answer = console.ask("GET", path, &host, "");
        assert!(!answer.head.contains(&console.token) && !answer.body.contains(&console.token), "{path}");
        assert!(!answer.body.contains("spare"), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe") && answer.header("x-content-type-options").is_some(), "{policy}");
    }
    for path in
        ["/api/v1/session", "/api/v1/overview", "/api/v1/status", "/api/v1/disks/brindle", "/api/v1/nothing"]
    {
        assert_eq!(console.ask("GET", path, &host, "").status, 401, "{path}");
    }
    assert_eq!(console.ask("GET", "/", &host, "").header("location"), Some("/login"));
    // By the name of a proxy, too, with a cookie that goes by TLS alone.
    let proxied = ["Host: nas.example.org".to_owned(), "Origin: https://nas.example.org".to_owned()];
    let answer = console.ask("POST", "/login", &proxied, &format!("token={}", console.token));
    let cookie = answer.header("set-cookie").unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Secure"] {
        assert!(cookie.contains(word), "{cookie}");
    }
}

#[test]
fn what_is_malformed_huge_or_no_order_is_refused() {
    let Some((place, _daemon, console)) = served() else { return };
    let session = console.sign_in();
    let before = state(&place);
    let head = session.headers.join("\r\n");
    let post = format!("POST /api/v1/orders HTTP/1.1\r\nConnection: close\r\n{head}\r\n");
    for (said, statuses) in [
        ("\r\n\r\n\r\n".to_owned(), &[0, 400][..]),
        ("GET\r\n\r\n".to_owned(), &[400]),
        ("\u{0}\u{1}\u{2}\r\n\r\n".to_owned(), &[400]),
        (format!("GET / HTTP/9.9\r\n{head}\r\n\r\n"), &[400, 505]),
        (format!("GET / HTTP/1.1\r\nno colon\r\n{head}\r\n\r\n"), &[400]),
        (format!("DELETE / HTTP/1.1\r\nConnection: close\r\n{head}\r\n\r\n"), &[405]),
        (format!("GET /{} HTTP/1.1\r\nConnection: close\r\n{head}\r\n\r\n", "x".repeat(4000)), &[414]),
        (format!("GET / HTTP/1.1\r\n{head}\r\nX: {}\r\n\r\n", "x".repeat(64 << 10)), &[431]),
        (format!("GET / HTTP/1.1\r\n{head}\r\n{}\r\n", "X: y\r\n".repeat(200)), &[431]),
        (format!("GET http://{}/ HTTP/1.1\r\nConnection: close\r\n{head}\r\n\r\n", console.address), &[400]),
        (format!("{post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), &[400]),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n"), &[400]),
        (format!("{post}Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000)), &[413]),
        (
            format!(
                "{post}Transfer-Encoding: chunked\r\n\r\n{}",
                format!("8000\r\n{}\r\n", "x".repeat(0x8000)).repeat(3)
            ),
            &[413],
        ),
    ] {
        let answer = console.say(said.as_bytes());
        assert!(statuses.contains(&answer.status), "{said:.200}: {answer:?}");
    }
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    for (body, status) in [
        ("", 400),
        ("{}", 400),
        ("[]", 400),
        (&*deep, 400),
        (r#"{"server":"brindle","ask":"stop"}"#, 403),
        (r#"{"server":"brindle","ask":"fail","member":"0","array":"data"}"#, 403),
        (r#"{"server":"brindle","ask":"takeover","socket":"/x"}"#, 403),
        (r#"{"server":"brindle","ask":"action","array":"data","action":"check","extra":1}"#, 400),
        (r#"{"server":"brindle","ask":"action","ask":"stop","array":"data","action":"check"}"#, 400),
        (r#"{"server":"../brindle","ask":"action","array":"data","action":"check"}"#, 400),
        (r#"{"server":"nobody","ask":"action","array":"data","action":"check"}"#, 404),
        (r#"{"server":"brindle","ask":"action","array":"nothing","action":"check"}"#, 404),
        (r#"{"server":"brindle","ask":"pool-online","pool":"nothing","member":"0.0"}"#, 409),
    ] {
        let answer = console.ask("POST", "/api/v1/orders", &session.headers, body);
        assert_eq!(answer.status, status, "{body:.100}: {answer:?}");
        assert!(answer.json()["error"].as_str().is_some_and(|why| !why.is_empty()), "{answer:?}");
    }
    // Content of a device is lost only if the device is named once more, and the server refuses it without force.
    let carrying = place.disk("old", 64);
    std::fs::write(place.path("filled"), "").unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(&carrying).unwrap();
    file.write_all(b"XFSB").unwrap();
    let add = |more: Value| {
        let mut order = json!({"server": "brindle", "ask": "add", "array": "data", "devices": [carrying]});
        more.as_object().unwrap().iter().for_each(|(name, value)| order[name] = value.clone());
        session.order(&console, &order)
    };
    let refused = add(json!({}));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("XFS"), "{refused:?}");
    assert_eq!(add(json!({"force": true})).status, 403);
    assert_eq!(add(json!({"force": true, "typed": "old"})).status, 403);
    assert_eq!(state(&place), before);
    assert_eq!(add(json!({"force": true, "typed": carrying})).status, 200);
    assert_eq!(session.get(&console, "/api/v1/overview").status, 200);
}

#[test]
fn a_console_that_only_shows_orders_nothing() {
    let Some(place) = or_skip(Place::new()) else { return };
    place.array("1", "data", 2);
    let _daemon = place.daemon("[[arrays]]\nname = \"data\"\n[tuning]\nmemory = \"32M\"\n");
    let console = place.console(&["--read-only"]);
    let session = console.sign_in();
    let order = json!({"server": "brindle", "ask": "action", "array": "data", "action": "check"});
    let answer = session.order(&console, &order);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("--read-only"), "{answer:?}");
    assert_eq!(session.get(&console, "/api/v1/session").json()["read_only"], true);
}

#[test]
fn answers_are_those_of_the_program_and_are_not_sent_twice() {
    let Some((place, _daemon, console)) = served() else { return };
    let session = console.sign_in();
    let plain = |text: &str| -> Value {
        let mut told: Value = serde_json::from_str(text).unwrap();
        // Counters of two moments differ.
        for report in told.as_array_mut().unwrap() {
            for device in report["array"]["devices"].as_array_mut().unwrap() {
                device["io"] = Value::Null;
            }
        }
        told
    };
    let own = place.run(&["status", "--json"]);
    let told = session.get(&console, "/api/v1/status");
    assert_eq!(plain(&told.body), plain(&own));
    assert_eq!(session.get(&console, "/api/v1/status/brindle/data").json()["name"], "data");
    assert_eq!(session.get(&console, "/api/v1/status/brindle/nothing").status, 404);
    let members = (0..3).map(|at| place.path(&format!("disks/data{at}")).to_str().unwrap().to_owned());
    let members: Vec<String> = members.collect();
    let words = ["detail", "--json"].into_iter().chain(members.iter().map(String::as_str));
    let own: Value = serde_json::from_str(&place.run(&words.collect::<Vec<_>>())).unwrap();
    let told = session.get(&console, "/api/v1/detail/brindle/data").json();
    assert_eq!(told, own);
    assert!(told["devices"][0]["data_offset"].is_u64(), "{told}");
    assert_eq!(session.get(&console, "/api/v1/detail/brindle/nothing").status, 404);
    let asked = "drives=4-6&size=12TB&iops=100%2F80&price=250";
    let told = session.get(&console, &format!("/api/v1/plan?{asked}"));
    let own = place.run(&["plan", "--json", "-n", "4-6", "-z", "12TB", "--iops", "100/80", "--price", "250"]);
    assert_eq!(told.json(), serde_json::from_str::<Value>(&own).unwrap());
    let refused = session.get(&console, "/api/v1/plan?drives=4");
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.json()["error"].as_str().unwrap().contains("size"), "{refused:?}");
    assert_eq!(session.get(&console, "/api/v1/plan?drives=4&output=x").status, 400);
    let disks = session.get(&console, "/api/v1/disks/brindle").json();
    assert_eq!(
        (disks[0]["blank"].as_bool(), disks[0]["size"].as_u64()),
        (Some(true), Some(64 << 20)),
        "{disks}"
    );
    assert_eq!(disks.as_array().unwrap().len(), 1, "{disks}");
    let events = session.get(&console, "/api/v1/events").json();
    assert!(events.is_array(), "{events}");
    let asset = session.get(&console, "/assets/app.js");
    let again =
        [session.headers.clone(), vec![format!("If-None-Match: {}", asset.header("etag").unwrap())]].concat();
    assert_eq!(console.ask("GET", "/assets/app.js", &again, "").status, 304);
    // Nothing changes in an idle array but its rates, which settle.
    until("an answer that is as before", || {
        let tag = session.get(&console, "/api/v1/overview").header("etag").unwrap().to_owned();
        let again = [session.headers.clone(), vec![format!("If-None-Match: {tag}")]].concat();
        (console.ask("GET", "/api/v1/overview", &again, "").status == 304).then_some(())
    });
}

#[test]
fn slow_and_pipelined_clients_are_bounded_and_others_are_answered() {
    let Some((_place, _daemon, console)) = served() else { return };
    let session = console.sign_in();
    // More than there is room for: the first ones say a little, and no more.
    let slow: Vec<TcpStream> = (0..160)
        .map(|_| {
            let mut stream = TcpStream::connect(&console.address).unwrap();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
            stream
        })
        .collect();
    let begun = Instant::now();
    until("an answer beside them", || {
        (session.get(&console, "/api/v1/overview").status == 200).then_some(())
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(slow);
    // One after another on one connection: all are answered, in order.
    let head = session.headers.join("\r\n");
    let one = format!("GET /api/v1/session HTTP/1.1\r\n{head}\r\n\r\n");
    let last = format!("GET /api/v1/nothing HTTP/1.1\r\nConnection: close\r\n{head}\r\n\r\n");
    let mut stream = TcpStream::connect(&console.address).unwrap();
    stream.write_all(format!("{}{last}", one.repeat(20)).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!((text.matches("HTTP/1.1 200").count(), text.matches("HTTP/1.1 404").count()), (20, 1));
    // A body that does not come is not waited for.
    let begun = Instant::now();
    let answer = console
        .say(format!("POST /api/v1/orders HTTP/1.1\r\n{head}\r\nContent-Length: 50\r\n\r\n{{").as_bytes());
    assert_eq!(answer.status, 408, "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert!(console.process.memory() < 30 << 10, "{} KiB", console.process.memory());
}
