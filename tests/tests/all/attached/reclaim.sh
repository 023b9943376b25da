# Reclaim: of a file system on an array that this machine serves to itself, much more is written than the machine has memory. Pages are
# freed by writes that the server carries out, so it must not wait for one.

# moved: sectors that the members of the array have read or written.
moved() {
    cat $disks | awk '{ sum += $3 + $7 } END { print sum }'
}
# patiently COMMAND...: runs it for as long as members move anything. A busy machine is slow; one in which all wait for each other moves nothing.
patiently() {
    "$@" &
    command=$!
    before= still=0
    while [ -d /proc/$command ]; do
        sleep 1
        now=$(moved)
        if [ "$now" = "$before" ]; then still=$((still + 1)); else still=0; fi
        before=$now
        if [ $still -ge 180 ]; then
            echo "nothing has moved for 180 s"
            tail -n +1 /proc/$server/task/*/stack /proc/meminfo
            echo w >/proc/sysrq-trigger
            sleep 2
            return 1
        fi
    done
    wait $command
}
# pieces: what is written, of which no two MiB are the same.
pieces() {
    piece=0
    while [ $piece -lt $((REACH / 2)) ]; do
        echo "piece $piece"
        cat /tmp/content
        piece=$((piece + 1))
    done
}
fill() {
    pieces >/tmp/mnt/more
    sync
}
compare() {
    pieces | cmp - /tmp/mnt/more
}

# Waits are judged here.
echo 0 >/proc/sys/kernel/hung_task_timeout_secs
put memory $(awk '/^MemTotal/ { print $2 }' /proc/meminfo)
put available $(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
disks= members=
for n in 3 4 5; do
    node=$(readlink -f /dev/member/$n)
    members="$members $node"
    disks="$disks /sys/block/${node##*/}/stat"
done
step reclaim_create $b create --force -l 5 --assume-clean -N r $members
$b serve --memory 32M $members >>/tmp/log 2>&1 &
server=$!
waited=0
until $b status r >/dev/null 2>&1; do
    waited=$((waited + 1))
    [ $waited -lt 600 ]
    sleep 0.1
done
# As a file, with a loop device over it.
mkdir -p /tmp/files
step reclaim_mount $b mount --write r /tmp/files
device=$(/bin/losetup --find --show --direct-io=on /tmp/files/r)
step reclaim_mkfs mkfs.ext4 -q $device
step reclaim_ext4 mount -t ext4 $device /tmp/mnt
ended_last=$(cat /proc/$server/oom_score_adj)
begun=$(cut -d . -f 1 /proc/uptime)
step reclaim_write patiently fill
put reclaim_seconds $(($(cut -d . -f 1 /proc/uptime) - begun))
echo 3 >/proc/sys/vm/drop_caches
step reclaim_compare patiently compare
step reclaim_unmount patiently umount /tmp/mnt
step reclaim_fsck patiently fsck.ext4 -fn $device
step reclaim_detach /bin/losetup -d $device
waited=0
until $b umount /tmp/files; do
    waited=$((waited + 1))
    [ $waited -lt 600 ]
    sleep 0.1
done
step reclaim_stop $b stop r
wait $server || true
put reclaimed "$($b check --memory 32M --json $members | tr -d '\n')"
put ended_last $ended_last
put reclaim_log "$(flat /tmp/log)"
