# The cost of LVM and of ext4 on it, on an array that is attached: of extents that no volume has, of a volume, and of a file on another.
export BRINDLE_RUNTIME_DIR=/tmp/run LVM_SUPPRESS_FD_WARNINGS=1
members=$(for n in 0 1 2 3; do readlink -f /dev/member/$n; done)
mkdir -p /tmp/mnt /etc/lvm /run/lvm
step create brindle create --force --level 5 --chunk 64K --assume-clean --name data $members
brindle serve --memory 64M $members >/tmp/log 2>&1 &
tries=0
until brindle status data >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 600 ]
    sleep 0.1
done
step attach brindle attach data
lvm() {
    /bin/lvm "$@" --config 'activation { udev_sync=0 udev_rules=0 monitoring=0 } devices { use_devicesfile=0 obtain_device_list_from_udev=0 }' --yes
}
step pvcreate lvm pvcreate -ff /dev/nbd0
step vgcreate lvm vgcreate group /dev/nbd0
for volume in plain formatted; do
    step lvcreate lvm lvcreate --zero n --wipesignatures n --size SIZEm --name $volume group
done
step mkfs mkfs.ext4 -q -F /dev/mapper/group-formatted
step mount mount -t ext4 /dev/mapper/group-formatted /tmp/mnt
# What the file system needs for itself is some 30 MiB; volumes are of extents of 4 MiB, from 1 MiB on.
used=$((SIZE - 40))
free=$((2 * SIZE + 8))
for target in /dev/mapper/group-plain /tmp/mnt/file; do
    step fill dd if=/dev/zero of=$target bs=1M count=$used conv=notrunc
done
step fill dd if=/dev/zero of=/dev/nbd0 bs=1M count=$used seek=$free
sync

# load KEY TARGET ARGUMENTS...: IOPS, put under that key.
load() {
    key=$1 target=$2
    shift 2
    fio --name=load --filename="$target" --size=${used}m --ioengine=libaio --direct=1 --time_based --runtime=SECONDS --ramp_time=1 --thread \
        --output-format=terse --terse-version=3 --output=/tmp/fio "$@"
    put "$key" "$(awk -F';' '{ print $8 + $49 }' /tmp/fio)"
}
for round in $(seq ROUNDS); do
    order='raw lvm ext4'
    [ $((round % 2)) = 1 ] || order='ext4 lvm raw'
    at=0
    for how in '--rw=read --bs=1M --iodepth=8' '--rw=write --bs=1M --iodepth=8' '--rw=randread --bs=4k --iodepth=32' \
        '--rw=randwrite --bs=4k --iodepth=32'; do
        for kind in $order; do
            case $kind in
                raw) load "$round.raw.$at" /dev/nbd0 --offset=${free}m $how ;;
                lvm) load "$round.lvm.$at" /dev/mapper/group-plain $how ;;
                ext4) load "$round.ext4.$at" /tmp/mnt/file $how ;;
            esac
        done
        at=$((at + 1))
    done
done
step umount umount /tmp/mnt
step vgremove lvm vgremove --force group
step pvremove lvm pvremove -ff /dev/nbd0
step detach brindle detach data
