# From five disks to two file systems that are there after a reboot: one on an array of ours, one on an array of md's.
mkdir -p /var/log/journal && journalctl --flush
up
# md takes nothing that its file does not name, until the file says what it is to leave alone.
echo 'AUTO -all' >>/etc/mdadm/mdadm.conf
step install dpkg -i brindle.deb
put enabled "$(systemctl is-enabled brindle.service || true)"
udevadm settle
disks=$(echo /dev/disk/by-id/virtio-BRINDLE-[1-4])
step create brindle create --level 5 --name nas:data $disks
uuid=$(brindle detail --json $disks | sed -n 's/^ *"uuid": "\(.*\)",*$/\1/p' | head -n 1)
udevadm settle
put early "$(grep -c ^md /proc/mdstat || true)"
mkdir -p /etc/brindle /srv
printf '[[arrays]]\nname = "data"\nuuid = "%s"\nattach = true\n\n[tuning]\nmemory = "64M"\n' "$uuid" >/etc/brindle/brindle.toml
step check brindle config --check /etc/brindle/brindle.toml
# The guest boots by a kernel and an initramfs of the test, which have no mdadm.conf: there is none to be updated.
brindle config --ignore /etc/brindle/brindle.toml >>/etc/mdadm/mdadm.conf
sed -i '/^AUTO -all$/d' /etc/mdadm/mdadm.conf
step other mdadm --create /dev/md/other --run --force --level 1 --raid-devices 1 /dev/disk/by-id/virtio-BRINDLE-5
mdadm --detail --scan >>/etc/mdadm/mdadm.conf
udevadm settle
step mkfs_other mkfs.ext4 -q /dev/md/other
echo '/dev/md/other /mnt ext4 nofail 0 2' >>/etc/fstab
systemctl daemon-reload
step mount_other mount /mnt
dd if=/dev/urandom of=/mnt/file bs=64k count=16 2>/dev/null
sha256sum </mnt/file >/var/tmp/other
# Neither has its array yet when the disks appear, and when mdadm looks for all that there is.
step umount_other umount /mnt
step stop_other mdadm --stop /dev/md/other
step appear udevadm trigger --action add --settle --subsystem-match block --sysname-match 'vd*'
mdadm --assemble --scan || true
udevadm settle
put taken "$(ls /sys/block/md*/slaves 2>/dev/null | tr '\n' ' ')"
# The server starts while md does not run the one that is md's.
mdadm --stop /dev/md/other
step enable systemctl enable --now brindle
put active "$(systemctl is-active brindle)"
put unheld "$(brindle status --json | tr -d '\n')"
step back mdadm --assemble /dev/md/other
until_so test -b /dev/brindle/data
put device "$(readlink -f /dev/brindle/data)"
step mkfs mkfs.ext4 -q /dev/brindle/data
echo '/dev/brindle/data /srv ext4 _netdev,x-systemd.after=brindle.service,x-systemd.device-timeout=90s 0 2' >>/etc/fstab
systemctl daemon-reload
step mount mount /srv
dd if=/dev/urandom of=/srv/file bs=64k count=64 2>/dev/null
sync
sha256sum </srv/file >/var/tmp/sum
# The server dies under a mounted file system: systemd starts it anew, and it finds the device.
old=$(systemctl show -p MainPID --value brindle)
dd if=/srv/file of=/srv/copy bs=4k conv=fsync 2>/tmp/dd &
writes=$!
step kill kill -9 "$old"
step write wait "$writes"
put same "$(cmp /srv/file /srv/copy && echo yes)"
until_so systemctl is-active -q brindle
put another "$([ "$(systemctl show -p MainPID --value brindle)" != "$old" ] && echo yes)"
# So is a restart, which keeps sockets with systemd: the file system stays mounted, and the one that writes to it waits.
kept=0
for _ in $(seq "$restarts"); do
    old=$(systemctl show -p MainPID --value brindle)
    dd if=/srv/file of=/srv/again bs=4k conv=fsync 2>/tmp/dd &
    writes=$!
    step restart systemctl restart brindle
    step rewrite wait "$writes"
    cmp /srv/file /srv/again && findmnt -n /srv >/dev/null &&
        [ "$(systemctl show -p MainPID --value brindle)" != "$old" ] && kept=$((kept + 1))
    rm /srv/again
    # More than five in ten seconds are taken for a server that can't start.
    sleep 2
done
put kept "$kept"
put errors "$(dmesg | grep -c 'I/O error' || true)"
# The daemon says so if it has not the rights to serve its own host.
put rights "$(journalctl -b -u brindle --no-pager | grep -c 'when memory is short' || true)"
owners
load
