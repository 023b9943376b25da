//! Default seccomp profiles of containers' managers, compiled whole: what a container without capabilities may ask of the kernel.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};

/// Docker's profile.
pub(super) const DOCKER: &str = include_str!("../../../profiles/moby");
/// podman's profile.
pub(super) const PODMAN: &str = include_str!("../../../profiles/containers");

/// Fate of a call: an error number, or nothing if it is allowed.
type CallAction = Option<u64>;

/// A line of a profile that counts here.
struct Line<'a> {
    action: CallAction,
    /// Conditions on arguments.
    args: Vec<Value>,
    calls: Vec<&'a str>,
}

/// The filters of a profile, in the order in which they have to be installed.
pub(super) fn compile(profile: &str) -> Vec<BpfProgram> {
    let mut default = None;
    let mut allowed = Vec::new();
    let mut refused: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for text in profile.lines().filter(|line| !line.starts_with('#')) {
        let Some(line) = line(text) else { continue };
        if line.calls.is_empty() {
            default = line.action;
        }
        let calls = line.calls.iter().filter(|call| is_known(call));
        let rules = calls.map(|call| match line.args.as_slice() {
            [] => json!({ "syscall": call }),
            args => json!({ "syscall": call, "args": args }),
        });
        match line.action {
            None => allowed.extend(rules),
            Some(errno) => refused.entry(errno).or_default().extend(rules),
        }
    }
    let default = default.expect("a profile has a default");
    // Of two filters that both refuse, the one that was installed last says with which error.
    let first = program(&json!({ "errno": default }), &json!("allow"), &allowed);
    let others = refused.iter().filter(|(_, rules)| !rules.is_empty());
    let others = others.map(|(errno, rules)| program(&json!("allow"), &json!({ "errno": errno }), rules));
    std::iter::once(first).chain(others).collect()
}

/// Meaning of a line; `None` if its conditions don't hold on this machine for a container without capabilities.
fn line(text: &str) -> Option<Line<'_>> {
    let mut line = Line { action: None, args: Vec::new(), calls: Vec::new() };
    let mut words = text.split(' ').skip_while(|word| *word == "default");
    for word in words.by_ref() {
        if word == "allow" {
            break;
        }
        if let Some(errno) = word.strip_prefix("errno=") {
            line.action = Some(errno.parse().unwrap());
            break;
        }
        match word.split_once('=') {
            Some(("arch", all)) if !all.split(',').any(is_this) => return None,
            Some(("no-arch", all)) if all.split(',').any(is_this) => return None,
            Some(("cap", _)) => return None,
            Some(("arch" | "no-arch" | "no-cap", _)) => {}
            _ => line.args.push(condition(word)),
        }
    }
    line.calls = words.collect();
    Some(line)
}

/// As managers of containers name machines.
fn is_this(arch: &str) -> bool {
    arch == if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" }
}

/// A condition on an argument, such as `arg0<38` or `arg0&MASK=0`.
fn condition(word: &str) -> Value {
    let rest = word.strip_prefix("arg").unwrap_or_else(|| panic!("'{word}' is no condition"));
    let (index, rest) = rest.split_at(1);
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("'{word}' has no number"));
    let (op, value) =
        if let Some((mask, value)) = rest.strip_prefix('&').and_then(|rest| rest.split_once('=')) {
            (json!({ "masked_eq": number(mask) }), value)
        } else if let Some(value) = rest.strip_prefix("!=") {
            (json!("ne"), value)
        } else {
            let (op, value) = rest.split_at(1);
            (
                json!(match op {
                    "<" => "lt",
                    ">" => "gt",
                    _ => "eq",
                }),
                value,
            )
        };
    json!({ "index": number(index), "type": "qword", "op": op, "val": number(value) })
}

/// Whether this machine's kernels have a call: profiles name those of all machines.
fn is_known(call: &str) -> bool {
    let alone = [json!({ "syscall": call })];
    filter(&json!("allow"), &json!({ "errno": 1 }), &alone).is_ok()
}

fn program(mismatch: &Value, matched: &Value, rules: &[Value]) -> BpfProgram {
    filter(mismatch, matched, rules).unwrap_or_else(|error| panic!("{error}"))
}

fn filter(mismatch: &Value, matched: &Value, rules: &[Value]) -> Result<BpfProgram, seccompiler::Error> {
    let whole = json!({ "main": { "default_action": mismatch, "filter_action": matched, "filter": rules } });
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut all = seccompiler::compile_from_json(whole.to_string().as_bytes(), arch)?;
    Ok(all.remove("main").unwrap_or_default())
}
