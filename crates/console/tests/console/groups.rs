//! A console of another user than the daemon's: groups of `[control]` let it ask, or command.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use brindle_testkit::skip::{Missing, find, or_skip};
use serde_json::json;

use crate::world::{Place, brindle};

const USER: &str = "61000";
const READERS: &str = "61001";
const OPERATORS: &str = "61002";

/// The words before a command by which a user of these groups runs it.
fn as_user(groups: &str) -> Result<Vec<String>, Missing> {
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::new("only root may become other users"));
    }
    let setpriv = find("setpriv")?.to_str().unwrap().to_owned();
    let groups = if groups.is_empty() {
        vec!["--clear-groups".to_owned()]
    } else {
        vec!["--groups".to_owned(), groups.to_owned()]
    };
    let all =
        [vec![setpriv, "--reuid".to_owned(), USER.to_owned(), "--regid".to_owned(), USER.to_owned()], groups]
            .concat();
    let can = Command::new(&all[0]).args(&all[1..]).arg(brindle()?).arg("--version").output().unwrap();
    if can.status.success() {
        Ok(all)
    } else {
        Err(Missing::new("the program is in a folder that other users can't reach"))
    }
}

fn run(before: &[String], folder: &Path, words: &[&str]) -> Output {
    let program = brindle().unwrap_or_else(|missing| panic!("{missing}"));
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).arg(program).args(words).arg("--runtime-dir").arg(folder);
    command.output().unwrap()
}

#[test]
fn readers_ask_operators_command_and_strangers_get_nowhere() {
    let Some(reader) = or_skip(as_user(READERS)) else { return };
    let operator = or_skip(as_user(&format!("{READERS},{OPERATORS}"))).unwrap();
    let stranger = or_skip(as_user("")).unwrap();
    let Some(place) = or_skip(Place::new()) else { return };
    place.array("1", "data", 2);
    let control = format!("[control]\nreaders = {READERS}\noperators = {OPERATORS}\n");
    let _daemon =
        place.daemon(&format!("[[arrays]]\nname = \"data\"\n[tuning]\nmemory = \"32M\"\n{control}"));
    fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = place.path("run");
    let of =
        |path: &Path| fs::metadata(path).map(|meta| (meta.mode() & 0o777, meta.gid().to_string())).unwrap();
    assert_eq!(of(&folder), (0o750, READERS.to_owned()));
    assert_eq!(of(&folder.join("brindle.control")), (0o660, READERS.to_owned()));
    let said = |out: &Output| String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
    for user in [&reader, &operator] {
        let asked = run(user, &folder, &["status", "data"]);
        assert!(asked.status.success() && said(&asked).contains("raid1"), "{}", said(&asked));
    }
    let refused = run(&reader, &folder, &["action", "data", "check"]);
    assert!(!refused.status.success() && said(&refused).contains("operators"), "{}", said(&refused));
    let done = run(&operator, &folder, &["action", "data", "check"]);
    assert!(done.status.success(), "{}", said(&done));
    let refused = run(&stranger, &folder, &["status", "data"]);
    assert!(!refused.status.success(), "{}", said(&refused));

    // Consoles of such users: one shows and is refused, one mends, one is told why it sees nothing.
    let check = json!({"server": "brindle", "ask": "action", "array": "data", "action": "check"});
    for (user, status) in [(&reader, 409), (&operator, 200)] {
        let console = place.console_as(user, &[]);
        let session = console.sign_in();
        assert_eq!(session.get(&console, "/api/v1/overview").json()["items"][0]["name"], "data");
        let answer = session.order(&console, &check);
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let console = place.console_as(&stranger, &[]);
    let told = console.sign_in().get(&console, "/api/v1/overview").json();
    assert_eq!((&told["items"], &told["servers"][0]["answering"]), (&json!([]), &json!("closed")), "{told}");
    assert!(told["servers"][0]["why"].as_str().unwrap().contains("[control]"), "{told}");
}
