# An initiator of Linux: open-iscsi logs in to two portals, and what it is given is used while the server is killed and a portal closed.
# HOST has the portals FIRST and SECOND, CONTROL is where the test is asked for something, CLOSINGS says how often a portal is closed, LEAST
# for how many seconds it is written and verified at least.

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

step discover iscsiadm -m discovery -t sendtargets -p "$HOST:$FIRST"
step login iscsiadm -m node -L all
until_so [ -b /dev/sda ]
iscsiadm -m session -P 2 >/tmp/session
put digests "$(grep -c 'Digest: CRC32C' /tmp/session)"
put targets "$(iscsiadm -m node | wc -l)"

step mkfs mkfs.ext4 -q /dev/sda
step mount mount -t ext4 /dev/sda /mnt
begun=$(date +%s)
use /mnt/file
step kill ask kill
some_more
step verify used
step umount umount /mnt
step fsck fsck.ext4 -fn /dev/sda

# A path that is gone fails at once what waits for it: the other has it then.
step discover iscsiadm -m discovery -t sendtargets -p "$HOST:$SECOND"
iscsiadm -m node -p "$HOST:$SECOND" -o update -n node.session.timeo.replacement_timeout -v 0
step login iscsiadm -m node -p "$HOST:$SECOND" -l
until_so [ -b /dev/sdb ]
sectors=$(blockdev --getsz /dev/sda)
step multipath dmsetup create both --noudevsync --table \
    "0 $sectors multipath 1 queue_if_no_path 0 1 1 round-robin 0 2 1 8:0 1 8:16 1"
until_so [ -b /dev/dm-0 ]

is_gone() { dmsetup status both | grep -q '8:16 F'; }
is_up() { [ "$(cat /sys/class/iscsi_session/session2/state)" = LOGGED_IN ] && [ "$(cat /sys/block/sdb/device/state)" = running ]; }

use /dev/dm-0
for closing in $(seq "$CLOSINGS"); do
    step close ask close
    until_so is_gone
    some_more
    step open ask open
    until_so is_up
    dmsetup message both 0 reinstate_path 8:16
done
some_more
while [ $(($(date +%s) - begun)) -lt "$LEAST" ]; do some_more; done
put seconds $(($(date +%s) - begun))
step verify used
put rounds "$(rounds)"
put closings "$closing"
# A kernel warns of disks that are taken away from a map that still holds them.
step unmap dmsetup remove --retry --noudevsync both
step logout iscsiadm -m node -U all
