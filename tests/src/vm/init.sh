#!/bin/busybox sh
# First and only program of the machine. Results go to the second serial line, all else to the console.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
# Nothing may turn a line feed into two characters or echo anything back.
stty -F /dev/ttyS1 raw -echo
exec </dev/null >/dev/console 2>&1

# load LIST: loads the modules of a list.
load() {
    while read -r module; do
        [ -e "/sys/module/$module" ] || insmod "/modules/$module.ko" || echo "EXIT module $module" >/dev/ttyS1
    done <"$1"
}
load /modules/order

# The log of a machine that hangs has the stack of the task, and what the kernel did about a disk that does not answer. While it boots
# such lines would only take time.
echo 7 >/proc/sys/kernel/printk

# Disks appear when they like and in no promised order: the serial number of a virtio disk or the unit number of a SCSI
# disk says which is which. The last one takes what scripts hand over.
disks=$(cat /disks)
until [ "$(ls /sys/block | grep -c '^[sv]d')" -eq $((disks + 1)) ]; do
    if [ "$(cut -d . -f 1 /proc/uptime)" -gt 60 ]; then
        dmesg
        echo "EXIT not all of $disks disks appeared" >/dev/ttyS1
        poweroff -f
    fi
    sleep 0.02
done
mkdir /dev/member
for disk in /sys/block/[sv]d*; do
    number=$(cat "$disk/serial" 2>/dev/null) || number=$(readlink "$disk/device")
    number=${number##*[-:]}
    ln -s "/dev/${disk##*/}" "/dev/member/$number"
done
mv "/dev/member/$disks" /dev/output
echo 0 >/run/output

[ ! -e /modules/order.file_system ] || load /modules/order.file_system

[ ! -e /modules/order.nvme ] || load /modules/order.nvme

if [ -e /modules/order.cells ]; then
    # Drives come when a script makes them.
    insmod /modules/configfs.ko
    insmod /modules/null_blk.ko nr_devices=0
    mount -t configfs configfs /sys/kernel/config
fi

# The address that QEMU's own network gives to its first machine.
if [ -e /modules/order.network ]; then
    load /modules/order.network
    ip link set lo up
    ip addr add 10.0.2.15/24 dev eth0
    ip link set eth0 up
fi
[ ! -e /modules/order.initiator ] || load /modules/order.initiator

# A whole Debian on the first disk takes over, with the script as one of its services.
if [ -e /debian.sh ]; then
    mkdir -p /debian /run/test /run/systemd/system/multi-user.target.wants
    mount -t ext4 /dev/member/0 /debian
    cp /helpers.sh /script.sh /debian.sh /run/test/
    cp -r /payload/. /run/test/
    cp /debian.service /run/systemd/system/
    ln -s ../debian.service /run/systemd/system/multi-user.target.wants/debian.service
    umount /proc /sys /tmp
    mount --move /dev /debian/dev
    mount --move /run /debian/run
    exec switch_root /debian /sbin/init
fi

# Resync as fast as it goes.
echo 10000000 >/proc/sys/dev/raid/speed_limit_max
echo 10000000 >/proc/sys/dev/raid/speed_limit_min

echo "booted in $(cut -d ' ' -f 1 /proc/uptime) s"
sh -eu -c '. /helpers.sh; . /script.sh'
status=$?
if [ "$status" -ne 0 ]; then
    cat /proc/mdstat
    dmesg | tail -n 60
fi
echo "EXIT $status" >/dev/ttyS1
poweroff -f
