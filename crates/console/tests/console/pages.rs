//! Pages in Chromium against a real daemon: what is wrong is seen without a click, and mended by one button and one confirmation.

use brindle_testkit::skip::or_skip;
use serde_json::Value;

use crate::webdriver::{Browser, ENTER};
use crate::world::{Console, Place, Running};

fn served(settings: &str) -> Option<(Browser, Place, Running, Console)> {
    let browser = or_skip(Browser::start())?;
    let place = or_skip(Place::new())?;
    place.array("6", "data", 4);
    let pool: Vec<String> = (0..2).map(|at| place.disk(&format!("tank{at}"), 256)).collect();
    place.run(&["pool", "create", "tank", "mirror", &pool[0], &pool[1]]);
    let all = format!(
        "[[arrays]]\nname = \"data\"\n[[pools]]\nname = \"tank\"\n[tuning]\nmemory = \"48M\"\n{settings}"
    );
    let daemon = place.daemon(&all);
    let console = place.console(&[]);
    Some((browser, place, daemon, console))
}

/// The card of that name, in the words of a script.
fn card(name: &str) -> String {
    format!("document.querySelector('.card[data-name={name}]')")
}

#[test]
fn an_array_is_seen_degraded_and_mended_by_one_button_and_one_confirmation() {
    let Some((browser, place, _daemon, console)) = served("max-speed = \"24M\"\n") else { return };
    browser.window(1600, 1000, "light");
    browser.sign_in(&console);
    browser.wait("document.title.startsWith('Everything is fine')");
    browser.wait("document.getElementById('icon').getAttribute('href') == '/assets/fine.svg'");
    place.disk("blank", 96);
    place.run(&["fail", "data", "2"]);
    // Nothing is clicked.
    browser.wait(&format!("{}?.dataset.severity == 'degraded'", card("data")));
    browser.wait("document.title.startsWith('data: degraded')");
    browser.wait("document.getElementById('icon').getAttribute('href') == '/assets/wrong.svg'");
    let text = browser.run(&format!("return {}.innerText", card("data")));
    let text = text.as_str().unwrap();
    for words in ["data2 failed at ", "one more may fail", "Next:", "Add a disk", "3 in use"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(
        browser.run("return document.querySelectorAll('.card')[0].dataset.name") == "data",
        "the worst stands first"
    );
    browser.asked();
    // By keys alone.
    browser.tab_to("mend-0");
    browser.keys(ENTER);
    browser.wait("document.getElementById('confirm')");
    let command = browser.run("return document.querySelector('#dialog code').textContent");
    assert!(
        command.as_str().unwrap().starts_with("brindle add data ")
            && command.as_str().unwrap().ends_with("/disks/blank"),
        "{command}"
    );
    browser.tab_to("confirm");
    browser.keys(ENTER);
    browser.wait("!document.getElementById('dialog').open");
    // All that its bar shows, until it has shown the end.
    browser.run(&format!(
        "window.seen = []; setInterval(() => {{ const bar = {}?.querySelector('[role=progressbar]'); if (bar) seen.push(Number(bar.ariaValueNow)); }}, 20)",
        card("data")
    ));
    browser.wait("seen.at(-1) == 100");
    let seen: Vec<f64> = serde_json::from_value(browser.run("return seen")).unwrap();
    assert!(seen.is_sorted() && seen[0] < 100.0, "{seen:?}");
    browser.wait(&format!("{}?.dataset.severity == 'fine'", card("data")));
    browser.wait("document.title.startsWith('Everything is fine')");
    let told: Value = serde_json::from_str(&place.run(&["status", "data", "--json"])).unwrap();
    assert_eq!(told["array"]["state"][0], "clean", "{told}");
    assert_eq!(told["array"]["redundancy_left"], 2, "{told}");
    let asked = browser.asked();
    let orders: Vec<_> = asked.iter().filter(|(method, _)| method == "POST").collect();
    assert_eq!(orders.len(), 1, "{orders:?}");
    assert!(orders[0].1.ends_with("/api/v1/orders"), "{orders:?}");
    stays_at_home(&asked, &console);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[track_caller]
fn stays_at_home(asked: &[(String, String)], console: &Console) {
    let base = console.base();
    // The browser's own first page is within the browser.
    let is_inside = |url: &str| ["chrome:", "data:", "about:"].iter().any(|scheme| url.starts_with(scheme));
    let elsewhere: Vec<_> =
        asked.iter().filter(|(_, url)| !url.starts_with(&base) && !is_inside(url)).collect();
    assert!(elsewhere.is_empty() && !asked.is_empty(), "{elsewhere:?}");
    let told: Vec<_> = asked.iter().filter(|(_, url)| url.contains(&console.token)).collect();
    assert!(told.is_empty(), "the token is in an address: {told:?}");
}

#[test]
fn a_pool_is_mended_and_all_pages_fit_narrow_and_wide_light_and_dark() {
    let Some((browser, place, _daemon, console)) = served("") else { return };
    browser.window(1600, 1000, "light");
    browser.sign_in(&console);
    place.run(&["pool", "offline", "tank", "0.1"]);
    browser.wait(&format!("{}?.dataset.severity == 'degraded'", card("tank")));
    let text = browser.run(&format!("return {}.innerText", card("tank")));
    assert!(text.as_str().unwrap().contains("tank1 was taken out"), "{text}");
    for path in ["/", "/of/brindle/data", "/of/brindle/tank", "/events"] {
        browser.go(&format!("{}{path}", console.base()));
        browser.wait("document.getElementById('main').ariaBusy == 'false'");
        for (width, scheme) in [(400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")] {
            browser.window(width, 900, scheme);
            let seen = browser.run("return [document.documentElement.scrollWidth, innerWidth, getComputedStyle(document.body).backgroundColor]");
            assert!(seen[0].as_u64() <= seen[1].as_u64() && seen[1] == width, "{path}: {seen}");
            let ground = if scheme == "dark" { "rgb(20, 24, 29)" } else { "rgb(244, 245, 247)" };
            assert_eq!(seen[2], ground, "{path}");
        }
    }
    browser.go(&format!("{}/of/brindle/tank", console.base()));
    browser.wait("document.querySelectorAll('.member[data-shape=lost]').length == 1");
    browser.wait("document.querySelectorAll('.chart canvas').length == 2");
    browser.tab_to("mend");
    browser.keys(ENTER);
    browser.wait("document.getElementById('confirm')");
    assert_eq!(
        browser.run("return document.querySelector('#dialog code').textContent"),
        "brindle pool online tank 0.1"
    );
    browser.tab_to("confirm");
    browser.keys(ENTER);
    browser.wait("document.querySelectorAll('.member[data-shape=well]').length == 2");
    browser.wait("document.title.startsWith('tank: fine')");
    let told = place.run(&["pool", "history", "tank"]);
    assert!(told.contains("brindle pool online tank 0.1 (console)"), "{told}");
    stays_at_home(&browser.asked(), &console);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_console_that_ends_and_a_cookie_that_is_nobodys_are_told() {
    let Some(browser) = or_skip(Browser::start()) else { return };
    let Some(place) = or_skip(Place::new()) else { return };
    let console = place.console(&[]);
    browser.give(&console, &"0".repeat(64));
    browser.wait("document.getElementById('wrong')");
    browser.sign_in(&console);
    browser.wait("document.querySelector('h1').textContent == 'Nothing is served'");
    assert!(browser.run("return document.body.innerText").as_str().unwrap().contains("No server runs here"));
    browser.run("document.getElementById('sign-out').click()");
    browser.wait("location.pathname == '/login'");
    browser.sign_in(&console);
    drop(console);
    browser.wait("document.getElementById('connection').textContent.includes('does not answer')");
    browser.wait("document.title.startsWith('Console gone')");
}
