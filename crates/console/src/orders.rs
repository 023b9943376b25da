//! Orders of pages: those requests of the control protocol that mend, each with the command that does the same in a shell. Pure.

use brindle_host::control::{Ask, Author, Request};
use brindle_host::status::shell;
use serde_json::Value;

use crate::ask::is_name;
use crate::strict;

/// An order that may be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) server: String,
    pub(crate) request: Request,
    /// The words that do the same in a shell.
    pub(crate) command: String,
}

/// Why an order is not given: `true` if it is none at all, else it is one that is not given from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfit(pub(crate) bool, pub(crate) String);

fn wrong(why: impl Into<String>) -> Unfit {
    Unfit(true, why.into())
}

/// Reads an order: a request of the control protocol with `server`, and, where content of a device may be lost, with the device's name once
/// more in `typed`.
///
/// # Errors
/// Why it is none.
pub(crate) fn read(body: &[u8], user: u32) -> Result<Order, Unfit> {
    let Value::Object(mut told) = strict::read(body).map_err(wrong)? else {
        return Err(wrong("an order is an object: {\"server\":…,\"ask\":…}"));
    };
    let mut word = |name: &str| match told.remove(name) {
        Some(Value::String(word)) => Ok(Some(word)),
        None => Ok(None),
        Some(_) => Err(wrong(format!("'{name}' is a text"))),
    };
    let (server, typed) = (word("server")?, word("typed")?);
    let server = server.filter(|server| is_name(server)).ok_or_else(|| wrong("'server' names the server"))?;
    let told = Value::Object(told);
    let mut request: Request = serde_json::from_value(told.clone()).map_err(|error| {
        wrong(format!("no request of the control protocol: {}", error.to_string().escape_debug()))
    })?;
    let known = serde_json::to_value(&request).map_err(|error| wrong(error.to_string()))?;
    if let Some(field) = strict::unknown(&told, &known) {
        return Err(wrong(format!("'{}' is no field of this request", field.escape_debug())));
    }
    if request.by.is_some() {
        return Err(wrong("'by' is not said by pages"));
    }
    let command = command(&request).map(|words| format!("brindle {words}")).ok_or_else(|| {
        Unfit(false, format!("'{}' is not done from a page: do it in a shell", request.ask.name()))
    })?;
    if let Some(device) = lost_content(&request.ask)
        && typed.as_deref() != Some(device)
    {
        return Err(Unfit(false, "content of a device may be lost: type the device's name".to_owned()));
    }
    request.by = request.ask.is_change().then(|| Author { command: format!("{command} (console)"), user });
    Ok(Order { server, request, command })
}

/// The device whose content an order may lose.
fn lost_content(ask: &Ask) -> Option<&str> {
    match ask {
        Ask::Add { devices, force: true, .. } => Some(match &devices[..] {
            [device] => device.to_str().unwrap_or_default(),
            // Each is confirmed by itself.
            _ => "",
        }),
        Ask::Replace { with, force: true, .. } | Ask::PoolReplace { with, force: true, .. } => {
            Some(with.to_str().unwrap_or_default())
        }
        _ => None,
    }
}

/// The command of an order, without the program's name; `None` of requests that pages don't make.
fn command(request: &Request) -> Option<String> {
    let array = || request.array.as_deref().map(shell);
    let forced = |force: &bool| if *force { " --force" } else { "" };
    let path = |path: &std::path::Path| shell(&path.to_string_lossy());
    Some(match &request.ask {
        Ask::Action { action, max_speed: None, min_speed: None } => {
            format!("action {} {}", array()?, action.name())
        }
        Ask::Add { devices, force, re_add } if !devices.is_empty() => {
            let again = if *re_add { " --re-add" } else { "" };
            let devices: Vec<String> = devices.iter().map(|device| path(device)).collect();
            format!("add{again}{} {} {}", forced(force), array()?, devices.join(" "))
        }
        Ask::Replace { member, with, force } => {
            format!("replace{} --with {} {} {}", forced(force), path(with), array()?, shell(member))
        }
        Ask::Remove { devices } if !devices.is_empty() => {
            let devices: Vec<String> = devices.iter().map(|device| shell(device)).collect();
            format!("remove {} {}", array()?, devices.join(" "))
        }
        Ask::PoolOnline { pool, member, device: None } => {
            format!("pool online {} {}", shell(pool), shell(member))
        }
        Ask::PoolReplace { pool, member, with, force } => {
            format!("pool replace{} {} {} {}", forced(force), shell(pool), shell(member), path(with))
        }
        Ask::Export { limits: None } => format!("export {}", array()?),
        Ask::Disconnect { client: Some(client) } => format!("disconnect {} {}", array()?, shell(client)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(order: &Value) -> Result<String, Unfit> {
        read(order.to_string().as_bytes(), 7).map(|order| order.command)
    }

    #[test]
    fn each_order_of_a_page_has_its_command() {
        let with = |mut order: Value| {
            order["server"] = "srv".into();
            of(&order).unwrap()
        };
        for (order, command) in [
            (json!({"ask": "action", "array": "data", "action": "resume"}), "brindle action data resume"),
            (
                json!({"ask": "add", "array": "it's", "devices": ["/dev/a b"]}),
                "brindle add 'it'\\''s' '/dev/a b'",
            ),
            (
                json!({"ask": "add", "array": "d", "devices": ["missing"], "re_add": true}),
                "brindle add --re-add d missing",
            ),
            (
                json!({"ask": "add", "array": "d", "devices": ["/dev/a"], "force": true, "typed": "/dev/a"}),
                "brindle add --force d /dev/a",
            ),
            (
                json!({"ask": "replace", "array": "d", "member": "2", "with": "/dev/a"}),
                "brindle replace --with /dev/a d 2",
            ),
            (json!({"ask": "remove", "array": "d", "devices": ["failed"]}), "brindle remove d failed"),
            (json!({"ask": "pool-online", "pool": "tank", "member": "0.1"}), "brindle pool online tank 0.1"),
            (
                json!({"ask": "pool-replace", "pool": "tank", "member": "0.1", "with": "/dev/a"}),
                "brindle pool replace tank 0.1 /dev/a",
            ),
            (json!({"ask": "export", "array": "d"}), "brindle export d"),
            (
                json!({"ask": "disconnect", "array": "d", "client": "10.0.0.1:5"}),
                "brindle disconnect d 10.0.0.1:5",
            ),
        ] {
            assert_eq!(with(order), command);
        }
    }

    #[test]
    fn others_and_what_is_no_order_are_refused() {
        for ask in [
            json!({"ask": "stop"}),
            json!({"ask": "takeover", "socket": "/x"}),
            json!({"ask": "volume-destroy", "pool": "p", "name": "v", "force": true}),
            json!({"ask": "fail", "member": "0", "array": "d"}),
            json!({"ask": "reload"}),
            json!({"ask": "disconnect", "array": "d"}),
            json!({"ask": "add", "devices": ["/dev/a"]}),
            json!({"ask": "action", "array": "d", "action": "speed", "max_speed": 1}),
        ] {
            let mut order = ask.clone();
            order["server"] = "srv".into();
            assert!(matches!(of(&order), Err(Unfit(false, _))), "{ask}");
        }
        for order in [
            json!([]),
            json!({"ask": "add"}),
            json!({"server": "../x", "ask": "export", "array": "d"}),
            json!({"server": 7, "ask": "export", "array": "d"}),
            json!({"server": "s", "ask": "no-such"}),
            json!({"server": "s", "ask": "export", "array": "d", "farce": true}),
            json!({"server": "s", "ask": "export", "array": "d", "by": {"command": "x", "user": 0}}),
            json!({"server": "s", "ask": "action", "array": "d", "action": "\u{1b}[2J"}),
        ] {
            assert!(matches!(of(&order), Err(Unfit(true, _))), "{order}");
        }
        let twice = br#"{"server": "s", "ask": "export", "ask": "unexport", "array": "d"}"#;
        assert!(read(twice, 0).is_err_and(|why| why.1.contains("twice")));
    }

    #[test]
    fn a_device_that_carries_something_is_typed() {
        let order = |typed: &Value| {
            let mut order =
                json!({"server": "s", "ask": "add", "array": "d", "devices": ["/dev/a"], "force": true});
            if !typed.is_null() {
                order["typed"] = typed.clone();
            }
            of(&order)
        };
        assert!(order(&json!("/dev/a")).is_ok());
        for typed in [Value::Null, json!(""), json!("/dev/b"), json!("/dev/a ")] {
            assert!(matches!(order(&typed), Err(Unfit(false, _))), "{typed}");
        }
        let several = json!({"server": "s", "ask": "add", "array": "d", "devices": ["/dev/a", "/dev/b"], "force": true, "typed": "/dev/a"});
        assert!(of(&several).is_err());
    }

    #[test]
    fn the_history_of_a_pool_tells_that_it_was_the_console() {
        let order = json!({"server": "s", "ask": "pool-online", "pool": "tank", "member": "0.1"}).to_string();
        let by = read(order.as_bytes(), 7).unwrap().request.by.unwrap();
        assert_eq!((&*by.command, by.user), ("brindle pool online tank 0.1 (console)", 7));
    }
}
