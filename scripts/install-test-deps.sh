#!/usr/bin/env bash
# Installs from Debian what the tests use beyond Rust. Does nothing when all is there; without the right to install
# it names what is missing and leaves the rest to the tests, each of which says what it skips.
set -euo pipefail

# What to look for (a command, or a file pattern) and the package that has it.
readonly wanted=(
    "mdadm                                mdadm"
    "qemu-system-x86_64                   qemu-system-x86"
    "qemu-img                             qemu-utils"
    "qemu-io                              qemu-utils"
    "nbdcopy                              libnbd-bin"
    "nbdinfo                              libnbd-bin"
    "nbdsh                                python3-libnbd"
    "nbdkit                               nbdkit"
    "fio                                  fio"
    "/usr/share/doc/fio/examples/*.fio    fio-examples"
    "mkfs.ext4                            e2fsprogs"
    "mkfs.xfs                             xfsprogs"
    "mkfs.btrfs                           btrfs-progs"
    "mkfs.vfat                            dosfstools"
    "mkfs.exfat                           exfatprogs"
    "mkfs.f2fs                            f2fs-tools"
    "mkntfs                               ntfs-3g"
    "mksquashfs                           squashfs-tools"
    "xorriso                              xorriso"
    "sfdisk                               fdisk"
    "zsh                                  zsh"
    "fish                                 fish"
    "cryptsetup                           cryptsetup-bin"
    "pvcreate                             lvm2"
    "busybox                              busybox-static"
    "dpkg-deb                             dpkg"
    "qemu-aarch64                         qemu-user"
    "nbd-client                           nbd-client"
    "xz                                   xz-utils"
    "zstd                                 zstd"
    "lz4                                  lz4"
    "valgrind                             valgrind"
    "chromium                             chromium"
    "cc                                   gcc"
    "aarch64-linux-gnu-gcc                gcc-aarch64-linux-gnu"
    "/usr/aarch64-linux-gnu/lib/crt1.o    libc6-dev-arm64-cross"
    "/usr/lib/*/libisal.so.2              libisal2"
)

# Administrators' commands such as mdadm are not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin

present() {
    case $1 in
        /*) compgen -G "$1" >/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

missing=()
for line in "${wanted[@]}"; do
    read -r what package <<<"$line"
    present "$what" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if ! command -v apt-get >/dev/null; then
    echo "missing, and there is no apt-get to install them with (Debian's names): ${missing[*]}" >&2
    exit 0
fi
if [ "$(id -u)" -eq 0 ]; then
    root=()
elif sudo -n true 2>/dev/null; then
    root=(sudo -n)
else
    echo "missing, and only root may install them: apt-get install ${missing[*]}" >&2
    exit 0
fi

echo "installing ${missing[*]}"
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
