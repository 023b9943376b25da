//! A browser without a window, driven by Debian's chromedriver (W3C WebDriver), with a record of all that it asks of networks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use brindle_testkit::skip::{Missing, find};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Console, PATIENCE};

/// The key that goes to the next thing that takes keys.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Result<Self, Missing> {
        let (driver, chromium) = (find("chromedriver")?, find("chromium")?);
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
        });
        // It goes on to say things, which somebody has to read.
        thread::spawn(move || lines.for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self {
            driver,
            port: port.expect("chromedriver listens"),
            session: String::new(),
            _profile: profile,
        };
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--hide-scrollbars",
            &folder,
        ];
        let wanted = json!({"goog:chromeOptions": {"args": flags, "binary": chromium}, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}});
        let told = browser.ask("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}}));
        browser.session = format!("/session/{}", told["sessionId"].as_str().unwrap());
        Ok(browser)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).unwrap();
        let told: Value = serde_json::from_slice(&text).unwrap();
        assert!(told["value"]["error"].is_null(), "{path}: {told}");
        told["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    fn devtools(&self, command: &str, how: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": how}))
    }

    pub(crate) fn window(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    pub(crate) fn go(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// Runs the body of a function in the page, and gives what it returns.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Tries until the script's expression holds; where it never does, the page is told.
    #[track_caller]
    pub(crate) fn wait(&self, expression: &str) {
        const PAGE: &str = "return [location.pathname, document.activeElement?.id, document.body.innerText]";
        let begun = Instant::now();
        while self.run(&format!("return Boolean({expression})")) != true {
            assert!(begun.elapsed() < PATIENCE, "{expression}: not within {PATIENCE:?}: {}", self.run(PAGE));
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Keys as a person presses them.
    pub(crate) fn keys(&self, keys: &str) {
        let each = |key: char| {
            let key = key.to_string();
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        };
        let all: Vec<Value> = keys.chars().flat_map(each).collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": all}]}));
    }

    /// Goes from one thing to the next until the one with this `id` has the keys.
    #[track_caller]
    pub(crate) fn tab_to(&self, id: &str) {
        for _ in 0..60 {
            if self.run("return document.activeElement?.id ?? ''") == id {
                return;
            }
            self.keys(TAB);
        }
        panic!("{id} is not reached by keys");
    }

    /// Gives the token at the page for it. Its field has the keys once the page was drawn, which may be after it was loaded.
    #[track_caller]
    pub(crate) fn give(&self, console: &Console, token: &str) {
        self.go(&format!("{}/login", console.base()));
        self.wait("document.activeElement?.id == 'token'");
        self.keys(token);
        self.wait(&format!("document.getElementById('token').value.length == {}", token.len()));
        self.keys(ENTER);
    }

    #[track_caller]
    pub(crate) fn sign_in(&self, console: &Console) {
        self.give(console, &console.token);
        self.wait("document.querySelector('.hero')");
    }

    /// URLs of all that was asked of networks since the last look, with the method of each.
    pub(crate) fn asked(&self) -> Vec<(String, String)> {
        let log = self.post("/se/log", &json!({"type": "performance"}));
        let asked = log.as_array().unwrap().iter().filter_map(|line| {
            let told: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let message = &told["message"];
            (message["method"] == "Network.requestWillBeSent").then(|| {
                let request = &message["params"]["request"];
                let word = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
                (word("method"), word("url"))
            })
        });
        asked.collect()
    }

    /// Complaints of pages: errors of scripts, and what their policy forbade.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        let all = log.as_array().unwrap().iter().filter(|line| line["level"] != "DEBUG");
        all.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty()
            && let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port))
        {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = write!(
                stream,
                "DELETE {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                self.session
            );
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
