# Nobody at a keyboard.
look
put threads "$(grep -c 'asked by threads' /tmp/now || true)"
step attach_volume brindle attach tank/vm1
volume=$(readlink -f /dev/brindle/tank/vm1)
put volume "$(cmp -n 4194304 /srv/file "$volume" && echo same)"
step write_volume dd if=/srv/file of="$volume" bs=4k count=64 oflag=direct
step detach_volume brindle detach tank/vm1
# A mail server whose program is setgid itself.
sed -i 's|^mail = .*|&\nsendmail = "/opt/sendmail/sendmail"|' /etc/brindle/brindle.toml
step reload brindle reload
step sendmail until_so mails /var/spool/mqueue-client
# The package of before had no box, and needed no drop-in. An upgrade makes it.
rm /etc/systemd/system/brindle.service.d/*
# An upgrade under a running array ends no server, and nothing of it is left when it is removed.
pid=$(systemctl show -p MainPID --value brindle)
step upgrade dpkg --force-unsafe-io -i brindle.deb
put kept "$([ "$(systemctl show -p MainPID --value brindle)" = "$pid" ] && echo yes)"
step umount umount /srv
# A mount over what the unit hides from the service is no use of the device once it is gone.
step mount_home mount /dev/brindle/data /home
step umount_home umount /home
step fsck e2fsck -fn /dev/brindle/data
step detach brindle detach data
put drop_in "$(tail -n +3 /etc/systemd/system/brindle.service.d/folders.conf | tr '\n' ' ')"
# Without the rights of attach: clients of the network and of sockets are served.
sed -i '/^attach = true/d' /etc/brindle/brindle.toml
pasted=10
paste 'CapabilityBoundingSet=~CAP_SYS_ADMIN'
put pasted "$pasted"
pid=$(systemctl show -p MainPID --value brindle)
put rights "$(grep -E '^(CapBnd|NoNewPrivs):' "/proc/$pid/status" | tr -d '\t' | tr '\n' ' ')"
put without "$(brindle status --json | tr -d '\n')"
step more brindle volume create tank/vm2 4M
put refused "$(brindle attach data 2>&1 | tr '\n' '|')"
udevadm settle
put link "$([ -e /dev/brindle/data ] && echo there || echo gone)"
cp /usr/bin/brindle /tmp/compare
step remove dpkg --force-unsafe-io -r brindle
put left "$(readlink /proc/[0-9]*/exe | grep -c brindle || true)"
put compared "$(/tmp/compare check --json /dev/disk/by-id/virtio-BRINDLE-[1-4] | tr -d '\n')"
