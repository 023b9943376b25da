# An initiator of Linux: open-iscsi logs in to the portal FIRST of HOST. CONTROL is where the test is asked for something.

# ask WORD: has the test do something.
ask() {
    echo "asks for: $1"
    [ "$(echo "$1" | nc "$HOST" "$CONTROL")" = done ]
}

# until_so COMMAND...: waits for it. The machine as a whole has a limit.
until_so() {
    until "$@"; do sleep 0.1; done
}

# verified FILE: writes and verifies it again and again until /tmp/enough is there; each round is a line of /tmp/rounds.
verified() {
    while [ ! -e /tmp/enough ]; do
        fio --name=verified --filename="$1" --size=256k --rw=randwrite --bs=4k --direct=1 --ioengine=psync --verify=crc32c \
            --verify_fatal=1 --randrepeat=0 --thread --eta=never --output=/tmp/fio || { cat /tmp/fio; return 1; }
        echo round >>/tmp/rounds
    done
}

rounds() {
    wc -l </tmp/rounds
}

# some_more: waits for two rounds that end after now, of which the second began after it, too.
some_more() {
    before=$(rounds)
    until_so more_than $((before + 1))
}

more_than() {
    [ "$(rounds)" -gt "$1" ] || ! kill -0 "$fio" 2>/dev/null
}

# use FILE: begins to use it; used: ends that, and fails if anything was wrong.
use() {
    rm -f /tmp/enough
    : >/tmp/rounds
    verified "$1" &
    fio=$!
    some_more
}

used() {
    : >/tmp/enough
    wait "$fio"
}

mkdir -p /etc/iscsi /run/lock/iscsi /mnt
echo root:x:0:0::/:/bin/sh >/etc/passwd
echo InitiatorName=iqn.2026-11.example:guest >/etc/iscsi/initiatorname.iscsi
for of in discovery.sendtargets node.session; do
    echo "$of.auth.authmethod = CHAP
$of.auth.username = guest
$of.auth.password = a secret of 20 bytes
$of.auth.username_in = target
$of.auth.password_in = another one of 24 bytes.
$of.auth.chap_algs = SHA256"
done >/etc/iscsi/iscsid.conf
echo "node.conn[0].iscsi.HeaderDigest = CRC32C
node.conn[0].iscsi.DataDigest = CRC32C
node.conn[0].timeo.login_timeout = 5" >>/etc/iscsi/iscsid.conf
iscsid -f &

# found PORT [INTERFACE]: asks for targets at a portal of HOST, and notes the one that is there. Answers name the address that HOST has used, which
# leads nowhere from here.
found() {
    iscsiadm -m discovery -t sendtargets -p "$HOST:$1" -o nonpersistent | tee /tmp/found || return 1
    target=$(sed -n 's/.* //p' /tmp/found | sort -u)
    iscsiadm -m node -T "$target" -p "$HOST:$1" -I "${2:-default}" -o new
}

step discover found "$FIRST"
step login iscsiadm -m node -L all
until_so [ -b /dev/sda ]
iscsiadm -m session -P 2 >/tmp/session
put digests "$(grep -c 'Digest: CRC32C' /tmp/session)"
put targets "$(echo "$target" | wc -l)"
put portals "$(grep -c '^127.0.0.1:' /tmp/found)"
