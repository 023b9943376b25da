# Runs the test's script in a guest with systemd, tells how it ended, and has systemd power off.
stty -F /dev/ttyS1 raw -echo
cd /run/test
echo "booted in $(cut -d ' ' -f 1 /proc/uptime) s" >/dev/console
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -eu -c '. ./helpers.sh; . ./script.sh'
status=$?
if [ "$status" -ne 0 ]; then
    systemctl --no-pager --failed
    journalctl -b --no-pager -o short-monotonic | tail -n 120
fi
echo "EXIT $status" >/dev/ttyS1
systemctl poweroff
