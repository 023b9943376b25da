# Brings arrays into a state, and tells what md says of them then. The script of each array sets: name and n (its
# number), md (the device), sys (its folder in sysfs), members (its disks' numbers) and source (what it is filled from).

# garble NUMBER...: writes to these members what no array has written, so that bytes in the wrong place show.
garble() {
    for member in "$@"; do
        size=$(blockdev --getsize64 "/dev/member/$member")
        dd if="$source" of="/dev/member/$member" bs=4k skip=$((member * 97 % 256)) count=$((size / 4096)) conv=fsync
    done
}

# fill BLOCK QUARTERS: writes so many quarters of the array, from this block of the source on.
fill() {
    size=$(blockdev --getsize64 "$md")
    step "fill $name" dd if="$source" of="$md" bs=4k skip="$1" count=$((size / 4096 * $2 / 4)) conv=fsync
}

# settle: waits until md has nothing left to do.
settle() {
    if [ -e "$sys/sync_action" ]; then
        idle "$md"
    fi
}

# slow and fast: how md may resync. An array that is created slowly has not come far when its resync is halted.
slow() {
    echo 1 >/proc/sys/dev/raid/speed_limit_min
    echo 1 >/proc/sys/dev/raid/speed_limit_max
}
fast() {
    echo 10000000 >/proc/sys/dev/raid/speed_limit_max
    echo 10000000 >/proc/sys/dev/raid/speed_limit_min
}

# halfway KIB HALTED: how far resync and recovery are to come: half of so many KiB in whole chunks, as sectors. Those that run
# can't be bounded, so the first resync of a new array is HALTED before (yes or no).
halfway() {
    chunk=$(cat "$sys/chunk_size")
    [ "$chunk" -gt 0 ] || chunk=65536
    halted=$2
    half=$(($1 * 512 / chunk * chunk / 512))
    step "bound $name at $half" eventually bound
}
bound() {
    # It may have been about to start when it was told to halt, and not have noticed.
    if [ "$halted" = yes ]; then
        echo frozen >"$sys/sync_action"
    fi
    echo "$half" 2>/dev/null >"$sys/sync_max"
}

# reached: waits until md has come halfway.
reached() {
    step "bring $name to $half" eventually halfway_done
}
halfway_done() {
    [ "$(cut -d ' ' -f 1 "$sys/sync_completed")" -ge "$half" ] 2>/dev/null
}

# eventually COMMAND: tries it until it succeeds, for a minute.
eventually() {
    tries=600
    until "$1"; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ]; then
            grep . "$sys"/sync_* "$sys/resync_start"
            return 1
        fi
        sleep 0.1
    done
}

# force DEVICE...: assembles these as md refuses to without force. What it can't say then is how far the resync had come.
force() {
    step "refuse $name" refused "$@"
    put "refused$n" "$half"
    keep
    step "force $name" mdadm --assemble --readonly --run --force "$md" "$@"
    step "take all of $name as true" [ "$(cat "$sys/resync_start")" = none ]
}
refused() {
    ! mdadm --assemble --readonly --run "$md" "$@" || return 1
    # It may be there, not running.
    mdadm --stop "$md" || true
}

# keep and give_back: force changes the members, and they are to be left as they were.
keep() {
    for member in $members; do
        cp "/dev/member/$member" "/tmp/member$member"
    done
}
give_back() {
    for member in $members; do
        dd if="/tmp/member$member" of="/dev/member/$member" bs=64k conv=fsync
        rm "/tmp/member$member"
    done
}

# tell: what md says of the array, which is assembled read-only.
tell() {
    put "size$n" "$(blockdev --getsize64 "$md")"
    put "sha$n" "$(sha "$md")"
    put "state$n" "$(mdadm --detail "$md" | sed -n 's/^ *State : *\([^ ].*[^ ]\) *$/\1/p')"
    put "degraded$n" "$(cat "$sys/degraded" 2>/dev/null || echo 0)"
    put "resync$n" "$(cat "$sys/resync_start")"
    for member in $members; do
        disk=$(readlink "/dev/member/$member")
        dev=$sys/dev-${disk##*/}
        if [ -e "$dev" ]; then
            put "member$member" "$(cat "$dev/slot") $(cat "$dev/recovery_start") $(cat "$dev/state")"
        fi
    done
}
