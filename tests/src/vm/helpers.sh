# What a script in the machine may call.

# step NAME COMMAND...: runs a command; if it fails, the test is told the name.
step() {
    echo "BEGIN $1" >/dev/ttyS1
    echo "--- $*"
    shift
    "$@"
    echo "END" >/dev/ttyS1
}

# put KEY VALUE: hands a value of one line to the test.
put() {
    echo "SET $1 $2" >/dev/ttyS1
}

# sha DEVICE: the hash of its content, read past every cache: md writes beneath the page cache of its members.
sha() {
    dd if="$1" bs=1M iflag=direct 2>/dev/null | sha256sum | cut -d ' ' -f 1
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
