//! Servers that can't take all that they are to serve: they serve nothing, and leave every member as it was.

use std::net::TcpListener;

use super::*;

/// Where a superblock of version 1.2 has its level.
const LEVEL: u64 = 4096 + 72;

/// Where it has its events.
const EVENTS: u64 = 4096 + 200;

#[test]
fn serve_refuses_as_it_did() {
    let mut group = Group::new("refused");
    let mut refused = |title: &str, sets: &str, command: &str, prepare: &dyn Fn(&Scene)| {
        group.scene(title, sets, |scene| {
            prepare(scene);
            scene.prepared();
            scene.refused(command);
        });
    };
    let as_it_is = |_: &Scene| {};
    let damaged = |disks: &'static [&str]| {
        move |scene: &Scene| disks.iter().for_each(|disk| flip(&scene.disk(disk), EVENTS))
    };
    let named = |disks: &'static [&str], name: &'static str| {
        let patch = move |scene: &Scene, disk: &&str| {
            limits::patch(&scene.disk(disk), |sb| sb.name = name.to_owned());
        };
        move |scene: &Scene| disks.iter().for_each(|disk| patch(scene, disk))
    };
    refused("too few members", "a", "serve @a0", &as_it_is);
    refused("too few members of the second of two", "a b", "serve @b @a0", &as_it_is);
    refused("too few members of both", "a tank", "serve @a2 @tank0", &as_it_is);
    refused("a member of another array", "a b", "serve @a0 @b0", &as_it_is);
    refused("the superblock of a member is damaged", "a b", "serve @a @b", &damaged(&["a1"]));
    refused("no member", "a", "serve @a @blank", &|scene| files::sparse(&scene.disk("blank0"), 4 * MIB));
    refused("a copy of a member", "a", "serve @a @copy", &|scene| {
        std::fs::copy(scene.disk("a1"), scene.disk("copy0")).unwrap();
    });
    refused("a member twice", "a", "serve @a @a1", &as_it_is);
    refused("a truncated member", "a b", "serve @a @b", &|scene| {
        let file = std::fs::File::options().write(true).open(scene.disk("a2")).unwrap();
        file.set_len(2 * MIB).unwrap();
    });
    refused("a pool that lacks a member", "a tank", "serve @a @tank1", &as_it_is);
    refused(
        "a pool of the name of an array",
        "a tank",
        "serve @a @tank",
        &named(&["a0", "a1", "a2"], "tank"),
    );
    refused("an array that can't be written to", "a b", "serve --read-write @a @b", &|scene| {
        for disk in ["b0", "b1"] {
            limits::patch(&scene.disk(disk), |sb| sb.bitmap_offset = Some(4096));
        }
    });
    refused("no such file", "a", "serve @a0 @a1 %nowhere", &as_it_is);
    refused("a folder", "a", "serve %disks", &as_it_is);
    refused("nothing is named", "", "serve", &as_it_is);
    refused("no such file of access", "a", "serve --access %nowhere @a", &as_it_is);
    refused("a spare group of nothing", "a", "serve --spare-group g=x @a", &as_it_is);
    refused("a name that is none", "a", "serve --name .. @a", &as_it_is);
    group.hold();
}

#[test]
fn serve_goes_on_as_it_did() {
    let mut group = Group::new("without");
    let mut served = |title: &str, command: &str, count: usize, prepare: &dyn Fn(&Scene)| {
        group.scene(title, "a b", |scene| {
            prepare(scene);
            scene.prepared();
            let server = scene.serves(command, count);
            scene.ends(server, Some(Signal::TERM));
        });
    };
    served("damaged superblocks of all members of the second", "serve @a @b", 1, &|scene| {
        ["b0", "b1"].iter().for_each(|disk| flip(&scene.disk(disk), LEVEL));
    });
    served("a damaged superblock", "serve @a @b", 2, &|scene| flip(&scene.disk("a1"), LEVEL));
    served("members of two arrays, enough of each", "serve @a0 @a2 @b1", 2, &|_| ());
    served("two arrays of one name", "serve @a @b", 2, &|scene| {
        for disk in ["b0", "b1"] {
            limits::patch(&scene.disk(disk), |sb| sb.name = "here:a".to_owned());
        }
    });
    group.hold();
}

#[test]
fn serve_is_refused_what_another_has_as_it_was() {
    let mut group = Group::new("taken");
    group.scene("beside a server that runs", "a b tank", |scene| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap().to_string();
        scene.alike.push((address.clone(), "ADDRESS"));
        let server = scene.serves("serve @a", 1);
        for command in [
            "serve @a",
            "serve --name x @a",
            "serve --name x @a0 @b",
            "serve --name a @b",
            "serve --name x --nbd unix:%run/a.nbd @b",
            "serve --name x @b @tank @a",
        ] {
            scene.refused(command);
        }
        // The address differs from run to run.
        for flags in ["--nbd %", "--metrics %", "--iscsi % --iscsi-state %state"] {
            scene.refused(&format!("serve --name x {} @b", flags.replacen('%', &address, 1)));
        }
        scene.refused("serve --background --json --name x @a");
        // The pool is opened before it is found that nobody can come to it: its open is on record.
        scene.runs(&format!("serve --name x --nbd {address} @b @tank"));
        scene.ends(server, Some(Signal::TERM));
    });
    group.scene("beside somebody who has a member", "a b", |scene| {
        let held = std::fs::File::open(scene.disk("b1")).unwrap();
        held.lock().unwrap();
        for command in ["serve @a @b", "serve --read-only @b"] {
            scene.refused(command);
        }
        held.unlock().unwrap();
        let server = scene.serves("serve @a @b", 2);
        scene.ends(server, Some(Signal::TERM));
    });
    group.hold();
}
