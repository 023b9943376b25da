//! A server as docs/server.md has it: a Debian with systemd, udev and mdadm, into which the package is put. Two boots on one disk.

use std::time::Duration;

use brindle_tests::files;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Kernel, Report, Vm, debian};

use crate::packaged;

/// From four disks to a file system that is there after a reboot.
const FIRST: &str = r#"
    systemctl is-system-running --wait >/tmp/state || true
    put boot "$(cut -d . -f 1 /proc/uptime)"
    # md takes nothing that its file does not name.
    echo 'AUTO -all' >>/etc/mdadm/mdadm.conf
    step install dpkg -i brindle.deb
    put enabled "$(systemctl is-enabled brindle.service || true)"
    disks=$(echo /dev/disk/by-id/virtio-BRINDLE-[1-4])
    step create brindle create --level 5 --name nas:data $disks
    udevadm settle
    put md "$(grep -c ^md /proc/mdstat || true)"
    mkdir -p /etc/brindle /srv
    printf '[[arrays]]\nname = "data"\nattach = true\n\n[tuning]\nmemory = "64M"\n' >/etc/brindle/brindle.toml
    step check brindle config --check /etc/brindle/brindle.toml
    step enable systemctl enable --now brindle
    put active "$(systemctl is-active brindle)"
    # until_so COMMAND...: waits a minute for it, and shows what the daemon said if it does not come.
    until_so() {
        for _ in $(seq 300); do
            if "$@"; then return; fi
            sleep 0.2
        done
        journalctl -b -u brindle --no-pager | tail -n 40
        return 1
    }
    until_so test -b /dev/brindle/data
    put device "$(readlink -f /dev/brindle/data)"
    step mkfs mkfs.ext4 -q /dev/brindle/data
    echo '/dev/brindle/data /srv ext4 _netdev,x-systemd.requires=brindle.service,x-systemd.device-timeout=90s 0 2' >>/etc/fstab
    systemctl daemon-reload
    step mount mount /srv
    dd if=/dev/urandom of=/srv/file bs=64k count=64 2>/dev/null
    sync
    sha256sum </srv/file >/var/tmp/sum
    # The server dies under a mounted file system: systemd starts it anew, and it finds the device.
    old=$(systemctl show -p MainPID --value brindle)
    dd if=/srv/file of=/srv/copy bs=4k conv=fsync 2>/tmp/dd &
    writes=$!
    step kill kill -9 "$old"
    step write wait "$writes"
    put same "$(cmp /srv/file /srv/copy && echo yes)"
    until_so systemctl is-active -q brindle
    put another "$([ "$(systemctl show -p MainPID --value brindle)" != "$old" ] && echo yes)"
    put errors "$(dmesg | grep -c 'I/O error' || true)"
    # The daemon says so if it has not the rights to serve its own host.
    put rights "$(journalctl -b -u brindle --no-pager | grep -c 'when memory is short' || true)"
"#;

/// Nobody at a keyboard.
const SECOND: &str = r#"
    systemctl is-system-running --wait >/tmp/state || true
    put boot "$(cut -d . -f 1 /proc/uptime)"
    put failed "$(systemctl --failed --no-legend --plain | cut -d ' ' -f 1 | tr '\n' ' ')"
    put mounted "$(findmnt -n -o FSTYPE /srv)"
    put same "$([ "$(sha256sum </srv/file)" = "$(cat /var/tmp/sum)" ] && cmp /srv/file /srv/copy && echo yes)"
    put md "$(grep -c ^md /proc/mdstat || true)"
    # It was whole and clean when the machine was switched off.
    brindle status --json data | tr -d '\n' >/tmp/status
    put status "$(cat /tmp/status)"
    put unclean "$(journalctl -b -u brindle --no-pager | grep -c 'was not stopped' || true)"
    # An upgrade under a running array ends no server, and nothing of it is left when it is removed.
    pid=$(systemctl show -p MainPID --value brindle)
    step upgrade dpkg -i brindle.deb
    put kept "$([ "$(systemctl show -p MainPID --value brindle)" = "$pid" ] && echo yes)"
    step umount umount /srv
    step detach brindle detach data
    udevadm settle
    put link "$([ -e /dev/brindle/data ] && echo there || echo gone)"
    step remove dpkg -r brindle
    put left "$(readlink /proc/[0-9]*/exe | grep -c brindle || true)"
"#;

#[test]
fn a_server_has_its_array_after_a_reboot() {
    let package = match or_skip(packaged::package_of(".deb")) {
        Some(package) => std::fs::read(package).unwrap(),
        None => return,
    };
    let dir = tempfile::tempdir().unwrap();
    let disks = files::members(dir.path(), "disk", 4, 48 << 20);
    let own = dir.path().join("own");
    let Some(()) = or_skip(debian::disk(&own)) else { return };
    let payload = [("brindle.deb".to_owned(), package)];
    let boot = |script: &str| -> Option<Report> {
        let vm = or_skip(Vm::on(Kernel::Release).and_then(|vm| vm.debian(&own, &payload)))?;
        Some(vm.disks(&disks).limit(Duration::from_secs(900)).run(script).unwrap())
    };
    let Some(first) = boot(FIRST) else { return };
    println!("first boot: {} s of {:?}", &first["boot"], first.took);
    assert_eq!((&first["enabled"], &first["active"]), ("disabled", "active"));
    assert_eq!((&first["md"], &first["errors"], &first["rights"]), ("0", "0", "0"));
    assert_eq!((&first["same"], &first["another"]), ("yes", "yes"));
    assert!(first["device"].starts_with("/dev/nbd"), "{}", &first["device"]);
    let Some(second) = boot(SECOND) else { return };
    println!("second boot: {} s of {:?}", &second["boot"], second.took);
    assert_eq!((&second["failed"], &second["mounted"], &second["same"]), ("", "ext4", "yes"));
    assert_eq!((&second["md"], &second["unclean"], &second["kept"]), ("0", "0", "yes"));
    let status: serde_json::Value = serde_json::from_str(&second["status"]).unwrap();
    assert_eq!(status["array"]["missing"], serde_json::json!([]), "{status}");
    assert_eq!((&second["link"], &second["left"]), ("gone", "0"));
}
