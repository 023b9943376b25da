# What a script in the machine may call.

# step NAME COMMAND...: runs a command; if it fails, the test is told the name.
step() {
    echo "BEGIN $1" >/dev/ttyS1
    read -r up _ </proc/uptime
    echo "--- $up s: $*"
    shift
    "$@"
    echo "END" >/dev/ttyS1
}

# put KEY VALUE: hands a value of one line to the test.
put() {
    echo "SET $1 $2" >/dev/ttyS1
}

# sha DEVICE: copies its content for the host to hash, which it does faster, and prints where the copy is. It is read past
# every cache: md writes beneath the page cache of its members.
sha() {
    place=$(cat /run/output)
    size=$(blockdev --getsize64 "$1")
    dd if="$1" of=/dev/output bs=1M seek="$place" iflag=direct oflag=direct conv=notrunc 2>/dev/null || exit 1
    echo $((place + (size + 1048575) / 1048576)) >/run/output
    echo "content:$((place * 1048576)):$size"
}

# idle DEVICE: waits for the end of resync, recovery or check.
idle() {
    while ! grep -q idle "/sys/block/${1##*/}/md/sync_action"; do
        sleep 0.1
    done
}

# flat FILE: its lines as one, joined by |, for `put`.
flat() {
    tr '\n' '|' <"$1"
}
