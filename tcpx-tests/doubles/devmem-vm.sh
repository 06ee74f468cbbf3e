#!/usr/bin/env bash
# Runs the tests of device-memory TCP against an unmodified kernel, on a machine without such a NIC.
#
# usage: tcpx-tests/doubles/devmem-vm.sh [--prepare | --whole | --shell FILE] [CASE...]
#
#   (nothing)     prepares what is missing, builds, boots a guest and runs its cases but for the slow ones, or those named
#   --whole       runs all cases, and those of conformance with every rule of the plugin contract, which takes ten minutes
#   --prepare     only fetches and builds what the guest is made of
#   --shell FILE  runs FILE, a shell script, in the guest in place of the cases
#
# The guest is a stock Debian kernel in QEMU, without KVM. It has one processor, and a second NUMA node with memory alone.
# tcpx-tests/doubles/devmem-nic gives it a pair of NICs that receive into device memory and send from it; udmabuf stands in
# for a GPU's memory. All else of the path is the kernel's own code. It says nothing about speed.
#
# What it needs is fetched from the machine's own Debian mirror and kept, 1 GB, in TCPX_DEVMEM_VM, or devmem-vm in the
# target directory. Where that cannot be done, it prints "skipped: " and the reason, and the exit status is 0;
# TCPX_TEST_REQUIRE=devmem makes a failure of it. TCPX_DEVMEM_VM_SECONDS bounds the guest's life (2400, and 4800 with --whole),
# which takes a tenth of that where nothing runs beside it.
set -euo pipefail
. "$(dirname "$0")/../../tools/scripts/usage.sh"
cd "$(dirname "$0")/../.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
store=$(realpath -m "${TCPX_DEVMEM_VM:-$target/devmem-vm}")
# The Debian release that the kernel is from, whatever release this machine has. Receiving needs 6.12, sending 6.16.
release=trixie
suite=$release-backports

skip() {
    echo "skipped: $*"
    [[ ,${TCPX_TEST_REQUIRE:-}, != *,devmem,* ]] || exit 1
    exit 0
}

tools() {
    local missing=()
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v cpio >/dev/null || missing+=(cpio)
    # The ordinary busybox is not linked statically.
    dpkg -s busybox-static >/dev/null 2>&1 || missing+=(busybox-static)
    ((${#missing[@]})) || return 0
    apt-get update -q >>"$store/log" 2>&1 || skip "the package lists cannot be fetched: see $store/log"
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=200 install -y -q --no-install-recommends "${missing[@]}" >>"$store/log" 2>&1 ||
        skip "${missing[*]} cannot be installed: see $store/log"
}

# The mirror that this machine uses itself.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n1
}

# Runs a command in the Debian that the kernel is from. Its /proc, which the build needs, goes with it.
inside() {
    local root=$store/debian
    unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@" >>"$store/log" 2>&1
}

# The kernel, and a Debian beside it that has what its modules are built with.
kernel() {
    [ -e "$store/version" ] && return
    local uri root=$store/debian image version
    uri=$(mirror) || true
    [ -n "$uri" ] || skip "this machine has no Debian mirror"
    rm -rf "$root" "$store/kernel"
    debootstrap --variant=minbase "$release" "$root" "$uri" >>"$store/log" 2>&1 ||
        skip "Debian $release cannot be fetched from $uri: see $store/log"
    echo "deb $uri $suite main" >"$root/etc/apt/sources.list.d/backports.list"
    # How this machine reaches its mirror: proxies and their certificates.
    cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
    cp /etc/resolv.conf "$root/etc/"
    inside apt-get update -q || skip "$suite cannot be fetched from $uri: see $store/log"
    image=$(chroot "$root" apt-cache depends "linux-image-amd64/$suite" | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
    [ -n "$image" ] || skip "$suite has no kernel"
    version=${image#linux-image-}
    inside apt-get install -y -q --no-install-recommends -t "$suite" "linux-headers-$version" gcc make ethtool ||
        skip "what modules of Linux $version are built with cannot be installed: see $store/log"
    # The image is a file here, not something to boot the chroot with. Newer ones come in two packages.
    inside sh -c "cd /tmp && apt-get download -q $image && { apt-get download -q linux-binary-$version || true; }" ||
        skip "Linux $version cannot be fetched: see $store/log"
    mkdir -p "$store/kernel"
    for package in "$root"/tmp/*.deb; do dpkg -x "$package" "$store/kernel"; done
    rm -f "$root"/tmp/*.deb
    find "$store/kernel" -name 'vmlinuz*' | grep -q . || skip "the packages of Linux $version have no kernel in them"
    echo "$version" >"$store/version"
}

# The module, if its source is newer than what was built.
module() {
    local version source=$store/debian/devmem-nic
    version=$(<"$store/version")
    if [ -e "$store/tcpx-devmem-nic.ko" ] && [ -z "$(find tcpx-tests/doubles/devmem-nic -newer "$store/tcpx-devmem-nic.ko")" ]; then return; fi
    rm -rf "$source"
    cp -r tcpx-tests/doubles/devmem-nic "$source"
    if ! inside make -C "/usr/src/linux-headers-$version" M=/devmem-nic modules; then
        tail -n 30 "$store/log" >&2
        echo "the test NIC does not build against Linux $version" >&2
        exit 1
    fi
    cp "$source/tcpx-devmem-nic.ko" "$store/"
}

prepare() {
    [ "$(uname -sm)" = "Linux x86_64" ] || skip "the guest is x86-64, this machine is $(uname -sm)"
    command -v apt-get >/dev/null || skip "its kernel comes by apt, and this machine has none"
    ((EUID == 0)) || skip "fetching a kernel and the tools to build a module needs root"
    mkdir -p "$store"
    : >"$store/log"
    tools
    kernel
    module
}

# put ROOT FILE NAME: a program with the libraries that it loads
put() {
    local library
    # Lines of source are most of it, and every byte is unpacked in the guest before anything runs.
    strip --strip-debug -o "$1/bin/$3" "$2"
    for library in $(ldd "$2" 2>/dev/null | grep -o '/[^ ]*'); do
        [ -e "$1$library" ] || install -D "$library" "$1$library"
    done
}

# put_debian ROOT NAME: a program of the kernel's release, which may be older or newer than this machine's. So it brings
# a loader and libraries of its own.
put_debian() {
    local debian=$store/debian path library
    path=$(chroot "$debian" sh -c "command -v $2")
    install -D "$debian$path" "$1/debian/$2"
    for library in $(chroot "$debian" ldd "$path" | grep -o '/[^ ]*'); do cp -L "$debian$library" "$1/debian/"; done
    printf '#!/bin/sh\nexec /debian/ld-linux-x86-64.so.2 --library-path /debian /debian/%s "$@"\n' "$2" >"$1/bin/$2"
    chmod +x "$1/bin/$2"
}

# Runs the guest with the shell script $1; what it prints goes to the standard output.
boot() {
    local root
    root=$(mktemp -d)
    mkdir -p "$root"/{bin,etc}
    cp /bin/busybox "$root/bin/"
    cp "$store/tcpx-devmem-nic.ko" "$root/"
    cp tcpx-tests/doubles/devmem-vm/init "$root/"
    cp tcpx-tests/doubles/devmem-vm/cases "$root/"
    cp "$1" "$root/script"
    put_debian "$root" ethtool
    local program
    for program in "${programs[@]}"; do put "$root" "${program#*=}" "${program%%=*}"; done
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$store/initramfs"
    rm -rf "$root"
    # Without KVM, which inside a virtual machine is often there and broken. One processor: a guest with two loses its
    # clock. It goes first: beside builds it would be a machine whose processor stands still now and then. QEMU translates
    # a program once if it always lies at the same addresses, and a kernel that trusts its programs has less to translate.
    local line="console=ttyS0 quiet panic=-1 norandmaps mitigations=off rules=$rules names=$(IFS=,; echo "${names[*]}")"
    timeout "$seconds" nice -n -5 qemu-system-x86_64 -M q35 -accel tcg -cpu max -m 1G \
        -object memory-backend-ram,id=near,size=768M -numa node,memdev=near,cpus=0 \
        -object memory-backend-ram,id=far,size=256M -numa node,memdev=far \
        -nographic -no-reboot -nic none -kernel "$(find "$store/kernel" -name 'vmlinuz*' | head -n1)" \
        -initrd "$store/initramfs" -append "$line" </dev/null |
        sed -u -e 's/\r//; s/\x1b[^a-zA-Z]*[a-zA-Z]//g' -e '/SeaBIOS\|^c*Booting from\|reboot: /d'
}

programs=()
names=()
script=tcpx-tests/doubles/devmem-vm/runner
rules=some
seconds=2400
case ${1:-} in
--prepare)
    prepare
    echo "prepared: Linux $(<"$store/version") in $store"
    exit
    ;;
--whole)
    rules=all
    seconds=4800
    shift
    ;;
--shell)
    script=${2:?a shell script}
    shift 2
    ;;
esac
names=("$@")
seconds=${TCPX_DEVMEM_VM_SECONDS:-$seconds}
prepare
. tcpx-tests/doubles/devmem-vm/programs
status=0
boot "$script" | tee "$store/console" || status=$?
((status != 124)) || echo "the guest was ended after $seconds s"
if ! grep -q '^guest: 0 kernel warnings, status 0,' "$store/console"; then
    echo "a case, the kernel or the guest failed; its console is in $store/console" >&2
    exit 1
fi
