# From five disks to two file systems that are there after a reboot: one on an array of ours, one on an array of md's.
mkdir -p /var/log/journal && journalctl --flush
up
# No power is cut: files need not be flushed one by one.
step install dpkg --force-unsafe-io -i brindle.deb
put enabled "$(systemctl is-enabled brindle.service || true)"
# The guest boots by a kernel and an initramfs of the test: this tells that it was called. Mail is postfix's, which only takes it here.
printf '#!/bin/sh\ncp /etc/mdadm/mdadm.conf /var/tmp/initramfs.conf\n' >/usr/sbin/update-initramfs
chmod 755 /usr/sbin/update-initramfs
udevadm settle
disks=$(echo /dev/disk/by-id/virtio-BRINDLE-[1-4])
paste 'AUTO -all'
paste 'brindle create'
udevadm settle
put early "$(grep -c ^md /proc/mdstat || true)"
paste 'brindle config --check'
paste 'brindle config --ignore'
step initramfs grep '^ARRAY <ignore> UUID=' /var/tmp/initramfs.conf
step other mdadm --create /dev/md/other --run --force --level 1 --raid-devices 1 /dev/disk/by-id/virtio-BRINDLE-5
mdadm --detail --scan >>/etc/mdadm/mdadm.conf
udevadm settle
step mkfs_other mkfs.ext4 -q /dev/md/other
echo '/dev/md/other /mnt ext4 nofail 0 2' >>/etc/fstab
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
paste 'systemctl enable --now brindle'
# systemd heard that it is ready when the name was there.
put device "$(readlink -f /dev/brindle/data)"
put active "$(systemctl is-active brindle)"
put unheld "$(brindle status --json | tr -d '\n')"
step back mdadm --assemble /dev/md/other
# By hand: the name is gone and there again when the commands have answered.
step detach brindle detach data
put detached "$([ -e /dev/brindle/data ] && echo there || echo gone)"
put attached "$(brindle attach data)"
paste 'mkfs.ext4 /dev/brindle/data'
dd if=/dev/urandom of=/srv/file bs=64k count=64 2>/dev/null
sync
sha256sum </srv/file >/var/tmp/sum
paste 'brindle monitor'
put mailed "$(grep -la 'Subject:.*TestMessage.*data' /var/spool/postfix/maildrop/* | wc -l)"
paste 'brindle-scrub@data.timer'
# The server dies under a mounted file system: systemd starts it anew, and it finds the device.
old=$(systemctl show -p MainPID --value brindle)
dd if=/srv/file of=/srv/copy bs=4k conv=fsync 2>/tmp/dd &
writes=$!
step kill kill -9 "$old"
step write wait "$writes"
put same "$(cmp /srv/file /srv/copy && echo yes)"
until_so systemctl is-active -q brindle
put another "$([ "$(systemctl show -p MainPID --value brindle)" != "$old" ] && echo yes)"
# Requests that the old server had and did not answer are sent again after this time, which is half a minute else.
echo 10000 >/sys/block/nbd0/queue/io_timeout
# So is a restart, which keeps sockets with systemd: the file system stays mounted, and the one that writes to it waits. It takes the
# page's longer sample of settings.
step sample brindle config --check sample.toml
receivers
disks_in_files
{
    echo 'devices = ["/dev/disk/by-id", "/disks"]'
    cat sample.toml
    printf 'delay = "2s"\nsmart = true\nsmartctl = "/usr/local/sbin/smart-of-nvme"\nprogram = "/usr/local/sbin/hook"\nwebhook = "http://127.0.0.1:8099/"\n'
    cat control.toml
} >/etc/brindle/brindle.toml
# The unit's box is told with the line, before it stands in the way of a start.
put boxed "$(brindle reload | grep 'line 1: .*/disks' | tr '\n' '|')"
kept=0
for round in $(seq "$restarts"); do
    old=$(systemctl show -p MainPID --value brindle)
    dd if=/srv/file of=/srv/again bs=4k conv=fsync 2>/tmp/dd &
    writes=$!
    if [ "$round" = 1 ]; then
        paste 'systemctl restart brindle'
    else
        # More than five in ten seconds are taken for a server that can't start.
        sleep 2
        step restart systemctl restart brindle
    fi
    step rewrite wait "$writes"
    cmp /srv/file /srv/again && findmnt -n /srv >/dev/null &&
        [ "$(systemctl show -p MainPID --value brindle)" != "$old" ] && kept=$((kept + 1))
    rm /srv/again
done
put kept "$kept"
put unreached "$(journalctl -b -u brindle --no-pager | grep -c 'line 1: .*/disks' || true)"
paste 'brindle config --check /etc/brindle/brindle.toml --drop-in'
put unit "$(systemctl show -p NoNewPrivileges -p ProtectSystem -p CapabilityBoundingSet brindle | tr '\n' ' ')"
served_in_the_box
put pasted "$pasted"
put sampled "$(brindle status --json data | tr -d '\n')"
put errors "$(dmesg | grep -c 'I/O error' || true)"
# The daemon says so if it has not the rights to serve its own host.
put rights "$(journalctl -b -u brindle --no-pager | grep -c 'when memory is short' || true)"
owners
console
blank_disk
# The next boot has threads in the place of the ring.
printf '[Service]\nSystemCallFilter=~io_uring_setup\n' >/etc/systemd/system/brindle.service.d/threads.conf
# At the next boots the mount has less time than the service takes to start: it counts from when that has started.
sed -i 's/^\/dev\/brindle.*x-systemd.after=brindle.service/&,x-systemd.device-timeout=2s/' /etc/fstab
load
