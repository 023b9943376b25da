# Containers of Intel's: functions of the script that makes them.
export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1 IMSM_TEST_OROM=1 MDADM_NO_UDEV=1
mkdir -p /sbin /usr/sbin /dev/md
ln -sf /bin/mdmon /sbin/mdmon
ln -sf /bin/mdmon /usr/sbin/mdmon
pattern=$(readlink -f /dev/member/0)

# named FIRST COUNT: names of disks.
named() {
    for at in $(seq "$1" $(($1 + $2 - 1))); do readlink -f "/dev/member/$at"; done
}

# volume NAME FLAGS: makes a volume of $members, and waits until it is in sync.
volume() {
    step "$example $1" mdadm --create "/dev/md/$1" --raid-devices "$count" --run --size 4096 $2 $members
    dev=$(readlink -f "/dev/md/$1")
    [ ! -e "/sys/block/${dev##*/}/md/sync_action" ] || idle "$dev"
}

# fill NAME SKIP MIB: writes to it what the pattern has there.
fill() {
    dd if="$pattern" of="/dev/md/$1" bs=1M skip="$2" count="$3" iflag=direct oflag=direct 2>/dev/null
}

# of NAME: its folder in sysfs.
of() {
    dev=$(readlink -f "/dev/md/$1")
    echo "/sys/block/${dev##*/}/md"
}

# slow NAME: what goes over it from now on takes long.
slow() {
    echo 4 >"$(of "$1")/sync_speed_min"
    echo 4 >"$(of "$1")/sync_speed_max"
}

# acts NAME ACTION: waits until it is under way.
acts() {
    tries=0
    until grep -q "$2" "$(of "$1")/sync_action"; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ]
        sleep 0.1
    done
}

# stopped NAMES: stops volumes and their container.
stopped() {
    for name in "$@"; do
        tries=0
        until mdadm --stop "/dev/md/$name"; do
            tries=$((tries + 1))
            [ "$tries" -lt 50 ]
            sleep 0.2
        done
    done
}
