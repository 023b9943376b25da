# What session.sh has logged in to is used while one daemon after the other takes over, TAKEOVERS times.

step mkfs mkfs.ext4 -q /dev/sda
step mount mount -t ext4 /dev/sda /mnt
use /mnt/file
for takeover in $(seq "$TAKEOVERS"); do
    step takeover ask takeover
    some_more
done
step verify used
put rounds "$(rounds)"
put takeovers "$takeover"
# Bytes that were written before are read from the disk, not from memory.
echo 3 >/proc/sys/vm/drop_caches
step content sh -c 'md5sum /mnt/file >/tmp/sum && echo 3 >/proc/sys/vm/drop_caches && md5sum -c /tmp/sum'
step umount umount /mnt
step fsck fsck.ext4 -fn /dev/sda
put errors "$(dmesg | grep -c 'I/O error' || true)"
step logout iscsiadm -m node -U all
