# Nobody at a keyboard.
look
# An upgrade under a running array ends no server, and nothing of it is left when it is removed.
pid=$(systemctl show -p MainPID --value brindle)
step upgrade dpkg --force-unsafe-io -i brindle.deb
put kept "$([ "$(systemctl show -p MainPID --value brindle)" = "$pid" ] && echo yes)"
step umount umount /srv
step fsck e2fsck -fn /dev/brindle/data
step detach brindle detach data
udevadm settle
put link "$([ -e /dev/brindle/data ] && echo there || echo gone)"
cp /usr/bin/brindle /tmp/compare
step remove dpkg --force-unsafe-io -r brindle
put left "$(readlink /proc/[0-9]*/exe | grep -c brindle || true)"
put compared "$(/tmp/compare check --json /dev/disk/by-id/virtio-BRINDLE-[1-4] | tr -d '\n')"
