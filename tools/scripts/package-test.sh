#!/usr/bin/env bash
# Looks at what cargo xtask package has made, as a user who installs it would:
#   tools/scripts/package-test.sh FOLDER   the packages in FOLDER
#   tools/scripts/package-test.sh          builds them first, and checks tools/deploy/gke with the command in them
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
if [[ ! ${1:-} ]]; then
    . tools/scripts/glibc.sh
    cargo xtask package --profile dev --out "$target/packages" "${glibc[@]}"
    tools/scripts/package-test.sh "$target/packages"
    if python=$(tools/scripts/manifests-test.sh install); then
        unpacked=$(mktemp -d)
        trap 'rm -rf "$unpacked"' EXIT
        tar -xzf "$target"/packages/tcpx-*-linux-*.tar.gz --strip-components 1 -C "$unpacked"
        tools/scripts/manifests-test.sh "$python" "$unpacked/bin/tcpx"
        exit
    fi
    echo "skipped: the schemas of Kubernetes cannot be installed, so tools/deploy/gke is not checked"
    exit
fi
folder=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "error: $*" >&2; exit 1; }

archive=$(echo "$folder"/tcpx-*-linux-*.tar.gz)
mkdir "$work/archive" "$work/deb"
tar -xzf "$archive" -C "$work/archive" --strip-components 1
trees=("$work/archive")
if command -v dpkg-deb >/dev/null; then
    deb=$(echo "$folder"/tcpx_*.deb)
    dpkg-deb --info "$deb"
    dpkg-deb --extract "$deb" "$work/deb"
    diff -r "$work/archive" "$work/deb/usr" || fail "the two packages differ"
    dpkg-deb --contents "$deb" | grep -v ' root/root \| 0/0 ' && fail "files are not root's"
    trees+=("$work/deb/usr")
else
    echo "skipped: there is no dpkg-deb to open the .deb"
fi

for tree in "${trees[@]}"; do
    "$tree/bin/tcpx" explain "rx no cmsg" | grep -q '^TCPX-903 ' || fail "the command does not work"
    for page in tcpx tcpx-perf tcpx-doctor tcpx-explain; do
        gzip -dc "$tree/share/man/man1/$page.1.gz" | grep -q '^\.TH ' || fail "$page.1 is no manual page"
    done
    bash -c "source '$tree/share/bash-completion/completions/tcpx'; complete -p tcpx" >/dev/null
    grep -q '^#compdef tcpx' "$tree/share/zsh/vendor-completions/_tcpx" || fail "zsh gets nothing"
    grep -q 'complete -c tcpx' "$tree/share/fish/vendor_completions.d/tcpx.fish" || fail "fish gets nothing"
    grep -q 'Apache License' "$tree/share/doc/tcpx/copyright" || fail "the licence is missing"
    grep -q '^clap ' "$tree/share/doc/tcpx/THIRD-PARTY" || fail "licences of others are missing"
done
# The command loads plugins, so it cannot be linked statically: it needs the C library, and little else.
readelf --dynamic "${trees[0]}/bin/tcpx" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/needs \1/p'
echo "the packages are whole"
