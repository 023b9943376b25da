# Helpers of all boots.

# until_so COMMAND...: waits a minute for it, and shows what the daemon said if it does not come.
until_so() {
    for _ in $(seq 300); do
        if "$@"; then return; fi
        sleep 0.2
    done
    journalctl -b -u brindle --no-pager | tail -n 40
    return 1
}

pasted=0

# paste WORDS: types the next block of docs/server.md, which has these words.
paste() {
    pasted=$((pasted + 1))
    step "block $pasted has '$1'" grep -F -e "$1" "block-$pasted"
    step "block $pasted" . "./block-$pasted"
}

# up: waits until systemd has started all, and puts how that went.
up() {
    systemctl is-system-running --wait >/tmp/state || true
    put boot "$(cut -d . -f 1 /proc/uptime)"
    put failed "$(systemctl --failed --no-legend --plain | cut -d ' ' -f 1 | tr '\n' ' ')"
}

# owners: puts the arrays that md has, those that Brindle has, and all that are there.
owners() {
    udevadm settle
    put md "$(cat /sys/block/md*/md/array_state 2>/dev/null | wc -l)"
    put md_members "$(ls /sys/block/md*/slaves 2>/dev/null | tr '\n' ' ')"
    put md_disk "$(basename "$(readlink -f /dev/disk/by-id/virtio-BRINDLE-5)") "
    put served "$(brindle status --json | tr -d '\n')"
    put scan "$(brindle examine --scan | tr '\n' '|')"
}

# disks_in_files: a mirror and a pool with members that are files; a drive that SMART calls failing is one of the mirror.
disks_in_files() {
    echo 'AUTO -all' >>/etc/mdadm/mdadm.conf
    mkdir /disks
    truncate -s 16M /disks/m0
    truncate -s 64M /disks/p0 /disks/p1
    until_so test -b /dev/nvme0n1
    step create_fast brindle create --force --level 1 --name nas:fast /disks/m0 /dev/nvme0n1
    step create_pool brindle pool create tank mirror /disks/p0 /disks/p1
    step create_volume brindle volume create tank/vm1 8M --array /disks/p0 /disks/p1
}

# receivers: a webhook, and a program that leaves to another what it may not do itself.
receivers() {
    cat >/usr/local/sbin/hook <<'PROGRAM'
#!/bin/sh
echo "$*" >>/run/brindle/hook
exec systemd-run --quiet --collect /usr/local/sbin/hook-outside "$@"
PROGRAM
    printf '#!/bin/sh\necho "$*" >>/var/tmp/hook\n' >/usr/local/sbin/hook-outside
    chmod 755 /usr/local/sbin/hook /usr/local/sbin/hook-outside
    # Disks of virtio have no SMART: smartctl would only open them for writing, and udev would wait for their locks then.
    printf '#!/bin/sh\ncase "$*" in *nvme*) exec /usr/sbin/smartctl "$@" ;; esac\n' >/usr/local/sbin/smart-of-nvme
    chmod 755 /usr/local/sbin/smart-of-nvme
    printf '[Socket]\nListenStream=127.0.0.1:8099\nAccept=yes\n' >/run/systemd/system/web.socket
    printf '[Service]\nExecStart=/bin/bash /run/web.sh\nStandardInput=socket\nStandardOutput=socket\n' >/run/systemd/system/web@.service
    cat >/run/web.sh <<'PROGRAM'
while read -r line && line=${line%$'\r'} && [ -n "$line" ]; do
    case ${line,,} in content-length:*) length=${line#*: } ;; esac
done
head -c "$length" >>/var/tmp/web
printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
PROGRAM
    systemctl daemon-reload
    systemctl start web.socket
}

# mails FOLDER: mails about the drive in a spool.
mails() {
    grep -qrs 'DriveFailing' "$1"
}

# served_in_the_box: all that a daemon does, with the unit as it is installed.
served_in_the_box() {
    step mail until_so mails /var/spool/postfix/maildrop
    step hook until_so grep -qs DriveFailing /run/brindle/hook
    step hook_outside until_so grep -qs DriveFailing /var/tmp/hook
    step web until_so grep -qs DriveFailing /var/tmp/web
    put all_served "$(brindle status --json | tr -d '\n')"
    step attach_volume brindle attach tank/vm1
    volume=$(readlink -f /dev/brindle/tank/vm1)
    step write_volume dd if=/srv/file of="$volume" bs=64k count=64 oflag=direct
    put volume "$(cmp -n 4194304 /srv/file "$volume" && echo same)"
    step detach_volume brindle detach tank/vm1
    step scrub systemctl start brindle-scrub@data.service
    put scrubbed "$(systemctl show -p Result --value brindle-scrub@data.service) $(ls -A /var/lib/brindle/scrubs | wc -l)"
    step report brindle report --output /var/tmp/report.json
}

# blank_disk: a member goes, udev hands the disk to the daemon, and it comes back blank by an order of the console. From then on udev waits for a while for
# the lock of the disk, which it wants to look at: nothing may wait for udev.
blank_disk() {
    disk=/dev/disk/by-id/virtio-BRINDLE-4
    step fail brindle fail data $disk
    step remove brindle remove data $disk
    step handed udevadm trigger --action change --settle "$(readlink -f $disk)"
    step handed_over until_so grep_unit "brindle-incremental@$(basename "$(readlink -f $disk)").service"
    step zero brindle zero-superblock $disk
    put degraded "$(page /api/v1/overview | tr -d '\n')"
    put mended "$(order "{\"server\":\"brindle\",\"ask\":\"add\",\"array\":\"data\",\"devices\":[\"$disk\"]}")"
    step recover brindle wait data
    # It is asked once a second, and may not have heard of the end yet.
    step whole until_so is_shown_whole
    put whole "$(page /api/v1/overview | tr -d '\n')"
    put ordered "$(journalctl -b -u brindle-console --no-pager | grep -c 'brindle add data .*done' || true)"
}

# grep_unit UNIT: whether it has run to its end.
grep_unit() {
    journalctl -b -u "$1" --no-pager | grep -q Finished
}

# load: has something write to the file system until systemd ends it, which it does before it unmounts that. Some of it is
# flushed, and some is on its way when the machine is switched off.
load() {
    cat >/run/systemd/system/load.service <<'UNIT'
[Unit]
Description=Writes without end
RequiresMountsFor=/srv
[Service]
ExecStart=/bin/bash -c 'while :; do dd if=/dev/urandom of=/srv/flushed bs=64k count=128 conv=fsync; dd if=/dev/urandom of=/srv/left bs=4k count=1024; done'
StandardError=null
UNIT
    systemctl daemon-reload
    systemctl start load
    until_so test -s /srv/left
    systemctl is-active -q load
}

# look: puts how a boot found what the one before has left.
look() {
    up
    put mounted "$(findmnt -n -o FSTYPE /srv)"
    put same "$([ "$(sha256sum </srv/file)" = "$(cat /var/tmp/sum)" ] && cmp /srv/file /srv/copy && echo yes)"
    put other "$([ "$(sha256sum </mnt/file)" = "$(cat /var/tmp/other)" ] && echo yes)"
    owners
    # It was whole and clean when the machine was switched off, and so was the file system on it.
    put status "$(brindle status --json data | tr -d '\n')"
    # Each look at the journal takes a second or two.
    journalctl -b --no-pager -o short-monotonic >/tmp/now
    journalctl -b -1 _PID=1 -o export --output-fields=UNIT,MESSAGE_ID,MESSAGE >/tmp/before
    put unclean "$(grep ' brindle\[' /tmp/now | grep -c 'was not stopped' || true)"
    put recovered "$(grep -c 'EXT4-fs (nbd.*recover' /tmp/now || true)"
    # Things were ended in this order, and none of them by force.
    put order "$(of_before | sed -nE "s/^$STOPPED ((load|brindle).service|srv.mount) .*/\1/p" | tail -n 3 | tr '\n' ' ')"
    # A webhook that is being told when the service is started anew goes with it.
    put forced "$(grep -E '^MESSAGE=.*(load|brindle|srv).*(timed out|Killing|unmounting)' /tmp/before | grep -vc '(curl)' || true)"
    put stopping "$((($(at $STOPPED brindle.service) - $(at $STOPPING load.service)) / 1000))"
}

# Identifiers of systemd's messages: systemd.journal-fields(7), sd-messages.h.
STOPPING=de5b426a63be47a7b6ac3eaac82e2f6f
STOPPED=9d1aaa27d60140bd96365438aad20286

# of_before: message, unit and microsecond of what systemd said in the boot before.
of_before() {
    awk -F = '
        $1 == "__MONOTONIC_TIMESTAMP" { time = $2 }
        $1 == "MESSAGE_ID" { id = $2 }
        $1 == "UNIT" { unit = $2 }
        $0 == "" { print id, unit, time; id = unit = "-" }' /tmp/before
}

# at MESSAGE UNIT: the microsecond at which the boot before had, for the last time, that message of a unit.
at() {
    of_before | sed -n "s/^$1 $2 //p" | tail -n 1
}
