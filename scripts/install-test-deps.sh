#!/usr/bin/env bash
# Installs from Debian what the tests use beyond Rust, fio-plot from the Python registry into target/python, and the compiler's library for static binaries. Does nothing when all is there; without the right to install
# it names what is missing and leaves the rest to the tests, each of which says what it skips. With the word `packages` it installs
# Debian's packages alone, with `others` all but these.
set -euo pipefail
cd "$(dirname "$0")/.."

# Draws fio's reports, and so ours. In a folder of its own: nothing of the system's Python is changed.
readonly fio_plot=fio-plot==1.1.21
python() {
    [ ! -x target/python/bin/fio-plot ] || return 0
    echo "installing $fio_plot in target/python"
    if ! { python3 -m venv target/python && target/python/bin/pip install --quiet "$fio_plot"; }; then
        echo "missing: $fio_plot (pip can't install it)" >&2
    fi
}

# A newer conformance suite for iSCSI than Debian 12 has, with the C library that it needs: unpacked in a folder of its own.
libiscsi() {
    local folder=$PWD/target/libiscsi-1.20 lists mirror
    [ ! -x "$folder/iscsi-test-cu" ] || return 0
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || return 0
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 2>/dev/null | sed -n 's/^Debian main //p' | grep -v security | head -n 1) || true
    [ -n "$mirror" ] || return 0
    echo "unpacking libiscsi-bin of Debian 13 in target/libiscsi-1.20"
    lists=$(mktemp -d) && mkdir -p "$lists/lists/partial" "$lists/root"
    printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' "$mirror" >"$lists/it.sources"
    local options=(-qq -o "APT::Sandbox::User=$(id -un)" -o "Dir::State::lists=$lists/lists" -o "Dir::Cache=$lists/cache" -o "Dir::Etc::sourcelist=$lists/it.sources" -o Dir::Etc::sourceparts=/dev/null)
    if ! (cd "$lists" && apt-get "${options[@]}" update && apt-get "${options[@]}" download libiscsi-bin libc6 2>/dev/null &&
        for archive in ./*.deb; do dpkg-deb -x "$archive" root; done); then
        echo "missing: libiscsi-bin 1.20 (Debian 13 can't be reached)" >&2
        rm -rf "$lists"
        return 0
    fi
    rm -rf "$folder" && mkdir -p "$folder" && mv "$lists/root" "$folder/" && rm -rf "$lists"
    cat >"$folder/iscsi-test-cu" <<'SCRIPT'
#!/bin/sh
root=$(dirname "$0")/root
libraries=$root/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:/usr/lib/x86_64-linux-gnu" "$root/usr/bin/iscsi-test-cu" "$@"
SCRIPT
    chmod +x "$folder/iscsi-test-cu"
}

# What checks metrics and alert rules, without the server that Debian's package starts: unpacked in a folder of its own.
unpacked_promtool() {
    local folder=$PWD/target/promtool lists
    [ ! -x "$folder/promtool" ] && ! command -v promtool >/dev/null || return 0
    echo "unpacking promtool of prometheus in target/promtool"
    lists=$(mktemp -d)
    if ! (cd "$lists" && apt-get -qq -o "APT::Sandbox::User=$(id -un)" download prometheus && dpkg-deb -x ./*.deb root); then
        echo "missing: promtool (the package prometheus can't be had)" >&2
    else
        mkdir -p "$folder" && mv "$lists/root/usr/bin/promtool" "$folder/"
    fi
    rm -rf "$lists"
}

# The library that static binaries are linked with.
musl() {
    local target
    target=$(uname -m)-unknown-linux-musl
    [ ! -d "$(rustc --print target-libdir --target "$target")" ] || return 0
    rustup target add "$target" || echo "missing: the compiler's library for $target (rustup can't add it)" >&2
}

# The file system of a guest with systemd and udev, made anew when the script that makes it has changed.
guest() {
    local file=target/guest/root.ext4 by
    by=$(sha256sum <scripts/make-guest)
    [ ! -e "$file" ] || [ "$(cat "$file.by" 2>/dev/null)" != "$by" ] || return 0
    echo "making a guest of Debian in target/guest"
    if [ "$(id -u)" -ne 0 ] || ! scripts/make-guest "$file"; then
        echo "missing: $file (scripts/make-guest makes it, as root)" >&2
        return 0
    fi
    echo "$by" >"$file.by"
}

others() {
    [ "$part" != packages ] || return 0
    python
    libiscsi
    unpacked_promtool
    musl
    guest
}

# Administrators' commands such as mdadm are not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin

part=${1:-all}
if [ "$part" = others ]; then
    others
    exit 0
fi

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
    "fusermount3                          fuse3"
    "lintian                              lintian"
    "systemd-analyze                      systemd"
    "mmdebstrap                           mmdebstrap"
    "crun                                 crun"
    "musl-gcc                             musl-tools"
    "zsh                                  zsh"
    "fish                                 fish"
    "curl                                 curl"
    "smartctl                             smartmontools"
    "cryptsetup                           cryptsetup-bin"
    "pvcreate                             lvm2"
    "busybox                              busybox-static"
    "dpkg-deb                             dpkg"
    "qemu-aarch64                         qemu-user"
    "nbd-client                           nbd-client"
    "dmsetup                              dmsetup"
    "iscsi-test-cu                        libiscsi-bin"
    "/usr/lib/*/qemu/block-iscsi.so       qemu-block-extra"
    "xz                                   xz-utils"
    "zstd                                 zstd"
    "lz4                                  lz4"
    "valgrind                             valgrind"
    "chromium                             chromium"
    "chromedriver                         chromium-driver"
    "/usr/lib/python3*/ensurepip/__init__.py python3-venv"
    "cc                                   gcc"
    "aarch64-linux-gnu-gcc                gcc-aarch64-linux-gnu"
    "/usr/aarch64-linux-gnu/lib/crt1.o    libc6-dev-arm64-cross"
    "/usr/lib/*/libisal.so.2              libisal2"
)

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
    others
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
others
