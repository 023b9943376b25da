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
    put forced "$(grep -cE '^MESSAGE=.*(load|brindle|srv).*(timed out|Killing|unmounting)' /tmp/before || true)"
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
