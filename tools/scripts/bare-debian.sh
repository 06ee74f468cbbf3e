#!/usr/bin/env bash
# Does what the README says, and nothing else, on a Debian that has nothing: installs what it names, and runs each of its
# commands of "Try it". By hand, as root, with debootstrap and some GB of disk; the first run takes half an hour and more.
#
# usage: bare-debian.sh [SUITE [FOLDER]]      SUITE: trixie (the default), forky, ...; FOLDER keeps the system for the next run
set -euo pipefail

suite=${1:-trixie}
folder=${2:-/var/tmp/tcpx-bare-$suite}
root=$(cd "$(dirname "$0")/../.." && pwd)

((EUID == 0)) || { echo "error: debootstrap and chroot need root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "error: there is no debootstrap: apt-get install debootstrap" >&2; exit 2; }

# What the README has for this suite: the words in backticks from one "Debian N" to the next.
readme=$(tr '\n' ' ' <"$root/README.md")
case $suite in
bookworm | bullseye) echo "error: $suite packages neither rustup nor a cargo that is new enough" >&2; exit 2 ;;
trixie) named=$(grep -o 'On Debian 13 .*from Debian 14' <<<"$readme") ;;
*) named=$(grep -o 'from Debian 14 on [^.]*\.' <<<"$readme") ;;
esac
setup=$(grep -o '`[^`]*`' <<<"$named" | tr -d '`')
commands=$(sed -n '/^## Try it/,/^## Install it/p' "$root/README.md" | sed -n 's/^    \(cargo .*\)/\1/p')
[[ -n $setup && -n $commands ]] || { echo "error: the README names no commands" >&2; exit 1; }

# A suite that is newer than this debootstrap is laid down as the newest that it knows.
script=/usr/share/debootstrap/scripts/$suite
[[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid
[[ -e $folder/root/etc/debian_version ]] ||
    debootstrap --variant=minbase "$suite" "$folder/root" http://deb.debian.org/debian "$script"
mkdir -p "$folder/root/tcpx"
find "$folder/root/tcpx" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf -) | tar -C "$folder/root/tcpx" -xf -
cp /etc/resolv.conf "$folder/root/etc/resolv.conf"
# Where a network has a certificate authority of its own, nothing could be downloaded without it.
mkdir -p "$folder/root/usr/local/share/ca-certificates"
cp /usr/local/share/ca-certificates/*.crt "$folder/root/usr/local/share/ca-certificates/" 2>/dev/null || true

{
    echo 'set -eu; export DEBIAN_FRONTEND=noninteractive HOME=/root; cd /tcpx'
    echo 'run() { printf "\n== %s\n" "$1"; sh -c "$1"; printf "== took %s s\n" "$SECONDS"; }'
    echo 'SECONDS=0; run "apt-get update -q"'
    while read -r line; do printf 'run "%s"\n' "${line/apt-get install/apt-get install -y -q}"; done <<<"$setup"
    echo 'run "rustc --version"'
    while read -r line; do printf 'run "%s"\n' "$line"; done <<<"$commands"
    echo 'echo "== all commands of the README ended well"'
} >"$folder/root/try-it"

# Mounts of its own, which end with it. Nothing of this machine's environment goes in.
exec unshare --mount --fork --kill-child bash -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t sysfs -o ro sysfs "$1/sys"
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${CARGO_BUILD_JOBS:+CARGO_BUILD_JOBS=$CARGO_BUILD_JOBS} \
        chroot "$1" bash /try-it' - "$folder/root"
