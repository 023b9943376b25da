//! Pages as a browser shows them: Debian's Chromium, without a window.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Stands before all of the page: what goes wrong in it is kept.
const EARS: &str = "<script>window.wrong=[];window.onerror=(why)=>{window.wrong.push(String(why))};\
    addEventListener('securitypolicyviolation',(e)=>window.wrong.push(e.violatedDirective));</script>";

/// The script that every page is asked by; `seen` goes on in the words of a test.
const EYES: &str = include_str!("browser.js");

/// Opens `page` in a window of this width, lets `script` look at it, and gives what that put into its `seen`, as JSON. Besides
/// that `seen` holds: `wrong` (errors of scripts, what the page's policy forbade), `asked` (what was asked of a network),
/// `wide` (width of the content and of the window). Lists of texts are `cut` (that stand out of their box or chart), `broken`
/// (words with a line's end within them), `mixed` (that lie over others on an axis).
///
/// # Panics
/// If the browser can't be run, or no script looked.
pub fn look(chromium: &Path, page: &str, width: u32, script: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (head, body) = page.split_once("<meta charset").expect("a page says in which characters it is");
    let watched = folder.path().join("watched.html");
    let end = format!("<script>{}</script>", EYES.replace("/* LOOK */", script));
    fs::write(&watched, [head, EARS, "<meta charset", body, &end].concat()).expect("a page can be written");
    // No window is narrower than 500 pixels; a frame is.
    let outer = folder.path().join("outer.html");
    let frame = format!(
        "<!DOCTYPE html><iframe src=\"watched.html\" width=\"{width}\" height=\"900\" style=\"border:0\"></iframe>"
    );
    fs::write(&outer, frame).expect("a page can be written");
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
    ]);
    command.args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg("--window-size=1700,1000").args(["--allow-file-access-from-files", "--dump-dom"]);
    command.arg(format!("file://{}", outer.display()));
    // It complains of a desktop that is not there.
    let out = command.stderr(Stdio::null()).output().expect("a browser can be run");
    let text = String::from_utf8_lossy(&out.stdout);
    let seen = text.split_once("SEEN").and_then(|(_, rest)| rest.split_once("NEES"));
    let (seen, _) = seen.unwrap_or_else(|| panic!("no script looked: {}: {text:.2000}", out.status));
    seen.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}")
}
