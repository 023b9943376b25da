# What session.sh has logged in to is used while the server is killed and a portal closed. HOST has the portals FIRST and SECOND, CLOSINGS
# says how often a portal is closed, LEAST for how many seconds it is written and verified at least.

step mkfs mkfs.ext4 -q /dev/sda
step mount mount -t ext4 /dev/sda /mnt
begun=$(date +%s)
use /mnt/file
step kill ask kill
some_more

# One that may only read has its disk reset (SG_SCSI_RESET, of the device). The server refuses, the kernel's error handling goes on to a new login,
# and the other session knows nothing of it.
of_reader() { iscsiadm -m node -p "$HOST:$FIRST" -I reader "$@"; }
iscsiadm -m iface -I reader -o new
iscsiadm -m iface -I reader -o update -n iface.initiatorname -v iqn.2026-11.example:reader
step reader found "$FIRST" reader
of_reader -o update -n node.session.auth.username -v reader
of_reader -o update -n node.session.auth.password -v 'a third secret of 24 b.'
step login of_reader -l
until_so [ -b /dev/sdb ]
put read_only "$(cat /sys/block/sdb/ro)"
step reset perl -e 'open(F, "<", "/dev/sdb") or die; $device = pack("i", 1); ioctl(F, 0x2284, $device) or die "$!\n"'
step read dd if=/dev/sdb of=/dev/null bs=4k count=1 iflag=direct
# Each session's disk says so when it is new: the reader's first and after its reset, the other's first and after the server was killed.
sessions_of() { dmesg | grep -c "sd $1:0:0:0: Power-on or device reset"; }
put sessions "$(sessions_of 0) $(sessions_of 1)"
step logout of_reader -u
step forget of_reader -o delete
some_more
step verify used
step umount umount /mnt
step fsck fsck.ext4 -fn /dev/sda

# A path that is gone fails at once what waits for it: the other has it then.
step discover found "$SECOND"
iscsiadm -m node -p "$HOST:$SECOND" -o update -n node.session.timeo.replacement_timeout -v 0
step login iscsiadm -m node -p "$HOST:$SECOND" -l
until_so [ -b /dev/sdb ]
sectors=$(blockdev --getsz /dev/sda)
step multipath dmsetup create both --noudevsync --table \
    "0 $sectors multipath 1 queue_if_no_path 0 1 1 round-robin 0 2 1 8:0 1 8:16 1"
until_so [ -b /dev/dm-0 ]

is_gone() { dmsetup status both | grep -q '8:16 F'; }
is_up() { [ "$(cat /sys/class/iscsi_session/session3/state)" = LOGGED_IN ] && [ "$(cat /sys/block/sdb/device/state)" = running ]; }

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
