//! `brindle config`: settings made from running servers or from mdadm.conf, checked, and explained.

use std::path::Path;

use brindle_host::opening::{Config, MonitorConfig};
use serde::Serialize;
use serde_json::Value;

use super::ignore;
use super::running::{Written, written};
use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::monitor::{MdadmConf, programs_lacking};
use crate::flags::cli;
use crate::server::reach;
use crate::server::serve::{self, Checked};
use crate::server::settings::Settings;

/// The head of settings that are printed.
const HEAD: &str = "# Settings of `brindle daemon`, as /etc/brindle/brindle.toml has them. The rest is as it is by default:\n\
                    # `brindle config --schema` tells all of it, and `brindle config --check FILE` looks at a file.\n";

/// `brindle config`.
pub(crate) fn config(args: &cli::Config) -> Result<(), Failure> {
    let from = &args.from;
    if let Some(file) = &from.check {
        return check(file, args);
    }
    if let Some(file) = &from.ignore {
        return ignore::ignore(file, args.json);
    }
    if from.schema {
        return report::print_json(&schema());
    }
    let made = match &from.from {
        Some(file) => of_mdadm(file)?,
        None => of_running(args)?,
    };
    if args.json {
        return report::print_json(&made);
    }
    report::print(&(HEAD.to_owned() + &text(&made)?))
}

/// The JSON Schema of files of settings.
pub(crate) fn schema() -> Value {
    schemars::schema_for!(Config).to_value()
}

/// Settings that differ from their defaults.
fn text(config: &Config) -> Result<String, Failure> {
    let fail = |error: String| Failure::output("settings", std::io::Error::other(error));
    let table = |config: &Config| toml::Table::try_from(config).map_err(|error| fail(error.to_string()));
    let (mut own, usual) = (table(config)?, table(&Config::default())?);
    without(&mut own, &usual);
    toml::to_string(&own).map_err(|error| fail(error.to_string()))
}

fn without(own: &mut toml::Table, usual: &toml::Table) {
    own.retain(|key, value| match (value, usual.get(key)) {
        (toml::Value::Table(own), Some(toml::Value::Table(usual))) => {
            without(own, usual);
            !own.is_empty()
        }
        (value, Some(usual)) => value != usual,
        (_, None) => true,
    });
}

/// The answer to `--check`.
#[derive(Serialize)]
struct Answer<'a> {
    file: String,
    config: &'a Config,
}

fn check(file: &Path, args: &cli::Config) -> Result<(), Failure> {
    let config = Settings::read(file)?.config;
    // Whatever else is wrong: a service needs its folders before it can say so.
    if let Some(place) = &args.drop_in {
        drop_in(file, &config, place.as_deref())?;
    }
    let Checked { mut wrong, mut remarks } = serve::check(&config);
    if let Some(monitor) = &config.monitor {
        let (named, usual) = programs_lacking(monitor);
        wrong.extend(named);
        remarks.extend(usual);
    }
    remarks.iter().for_each(|remark| eprintln!("brindle: {remark}"));
    if !wrong.is_empty() {
        return Err(Failure::Refused(format!("{}: {}", file.display(), wrong.join("; "))));
    }
    if args.drop_in.is_some() {
        return Ok(());
    }
    if args.json {
        return report::print_json(&Answer { file: file.display().to_string(), config: &config });
    }
    let count = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let others = match config.homehost.as_deref() {
        Some("none") => String::new(),
        Some("any") => ", and all else that is found".to_owned(),
        Some(host) => format!(", and all arrays of host {}", host.escape_debug()),
        None => ", and all arrays of this host".to_owned(),
    };
    report::print(&format!(
        "{}: {} and {} by name{others}\n",
        file.display(),
        count(config.arrays.len(), "array"),
        count(config.pools.len(), "pool"),
    ))
}

/// Prints the drop-in that settings need for the unit, or writes it to a place.
fn drop_in(file: &Path, config: &Config, place: Option<&Path>) -> Result<(), Failure> {
    match (reach::drop_in(file, config)?, place) {
        (Some(text), None) => report::print(&text),
        (Some(text), Some(place)) => {
            reach::write(place, &text)?;
            let shown = place.display();
            report::print(&format!(
                "{shown} is written: `systemctl daemon-reload` and a restart of the service have it used\n"
            ))
        }
        (None, place) => {
            eprintln!(
                "brindle: {}: the unit reaches all folders that it names: no drop-in is needed",
                file.display()
            );
            if let Some(place) = place.filter(|place| place.exists()) {
                eprintln!("brindle: {} stays as it is, and can be removed", place.display());
            }
            Ok(())
        }
    }
}

/// Settings that serve the arrays and pools that run.
fn of_running(args: &cli::Config) -> Result<Config, Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let Written { config, remarks } = written(&folder)?;
    remarks.iter().for_each(|remark| eprintln!("brindle: {remark}"));
    Ok(config)
}

/// Settings that serve the arrays of an mdadm.conf.
fn of_mdadm(file: &Path) -> Result<Config, Failure> {
    let conf = MdadmConf::read(Some(file))?;
    let mut config = Config { homehost: Some("none".to_owned()), ..Config::default() };
    config.arrays = conf.volumes();
    if conf.mail_to.is_some() || conf.program.is_some() {
        let (mail, mail_from, program) = (conf.mail_to, conf.mail_from, conf.program);
        config.monitor = Some(MonitorConfig { mail, mail_from, program, ..MonitorConfig::default() });
    }
    match config.wrong() {
        wrong if wrong.is_empty() => Ok(config),
        wrong => Err(Failure::Refused(format!("{}: {}", file.display(), wrong.join("; ")))),
    }
}
