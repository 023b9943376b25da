//! Names that are markup, steer or turn round: text everywhere.

use std::io::Write;

use brindle_testkit::skip::or_skip;
use serde_json::json;

use crate::webdriver::Browser;
use crate::world::{Place, lying, status_line};

/// Marks that a page would run if it took them for code.
const HOSTILE: [&str; 6] = [
    "<img src=x onerror=\"window.ran=1\">",
    "\"} 1",
    "</script><script>window.ran=1</script>",
    "javascript:window.ran=1",
    "a\u{202e}gnp.exe\u{200f}",
    "b\u{1b}[2J\u{0}\n\r\tc",
];

#[test]
fn hostile_names_are_text_on_every_page() {
    let Some(browser) = or_skip(Browser::start()) else { return };
    let Some(place) = or_skip(Place::new()) else { return };
    let long = "x".repeat(4096);
    let names: Vec<&str> = HOSTILE.into_iter().chain([&*long]).collect();
    let report = |name: &&str| {
        let drive = json!({"model": name, "serial": name, "by_id": name, "slot": name});
        let failure = json!({"at": 1, "why": name, "error": name, "operation": name});
        let device = |role: usize, state: &str| json!({"role": role, "path": format!("/dev/{name}"), "state": state, "drive": drive, "failure": failure, "flags": [name]});
        let event = json!({"number": 1, "at": 1, "kind": name, "member": name, "text": name});
        json!({
            "name": name, "server": name, "exported": true, "nbd": [name], "events": [event],
            "clients": [{"protocol": name, "address": name, "proved": [name], "initiator": name}],
            "left_out": [{"path": name, "why": name}], "spare_group": name, "device": name,
            "array": {"name": name, "uuid": name, "homehost": name, "level": name, "layout": name, "metadata": name, "raid_devices": 2,
                      "state": ["active", "degraded", name], "limits": [name], "redundancy_left": 1, "devices": [device(0, "failed"), device(1, name)]},
            "last_action": {"action": name, "error": name},
        })
    };
    let mut all: Vec<_> = names.iter().map(report).collect();
    all.push(json!({"name": HOSTILE[0], "kind": HOSTILE[1], "not_served": long, "next": HOSTILE[0], "missing": [HOSTILE[2]]}));
    let disks: Vec<_> = names.iter().map(|name| json!({"path": format!("/dev/{name}"), "size": 1_u64 << 40, "blank": false, "holds": [name], "drive": {"serial": name, "model": name}})).collect();
    let (all, disks) = (json!(all), json!({"ok": disks}).to_string() + "\n");
    lying(&place, "liar", move |stream, line| {
        let answer = if line.contains("disks") { disks.clone() } else { status_line(line, 1, &all) };
        drop(stream.write_all(answer.as_bytes()));
    });
    let console = place.console(&[]);
    browser.window(400, 900, "light");
    browser.sign_in(&console);
    browser.wait("document.querySelectorAll('.card').length == 8");
    let sound = |where_: &str| {
        let seen = browser.run(
            "return {ran: window.ran ?? null, wide: document.documentElement.scrollWidth, inner: innerWidth, \
             images: document.querySelectorAll('main img, main script, dialog img, dialog script').length, text: document.body.textContent, title: document.title}",
        );
        assert!(seen["ran"].is_null() && seen["images"] == 0, "{where_}: {}", seen["images"]);
        assert!(
            seen["wide"].as_u64() <= seen["inner"].as_u64(),
            "{where_}: {} of {}",
            seen["wide"],
            seen["inner"]
        );
        for text in [&seen["text"], &seen["title"]] {
            assert!(
                !text.as_str().unwrap().contains(['\u{202e}', '\u{200f}', '\u{1b}', '\u{0}']),
                "{where_}"
            );
        }
    };
    sound("overview");
    let text = browser.run("return document.body.textContent");
    assert!(text.as_str().unwrap().contains("<img src=x onerror="), "a name is shown as it is");
    // A disk that could be added is shown with its names, and asks for one to be typed.
    browser.run("document.querySelector('.card button.primary').click()");
    browser.wait("document.querySelector('#dialog details')");
    browser.run("document.querySelector('#dialog details').open = true");
    sound("disks");
    browser.run("document.querySelector('#dialog button.disk').click()");
    browser.wait("document.getElementById('typed')");
    sound("confirmation");
    for at in 0..names.len() {
        browser.go(&console.base());
        browser.wait("document.querySelectorAll('.card').length == 8");
        browser.run(&format!(
            "[...document.querySelectorAll('.card h2 a')].filter((link) => link.href)[{at}].click()"
        ));
        browser.wait("document.querySelector('.head') || document.querySelector('.empty')");
        sound("item");
    }
    browser.go(&format!("{}/events", console.base()));
    browser.wait("document.querySelectorAll('.events li').length == 7");
    sound("events");
    assert_eq!(browser.complaints(), [""; 0]);
}
