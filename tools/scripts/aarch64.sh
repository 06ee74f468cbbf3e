#!/usr/bin/env bash
# Whether tcpx builds and counts right on aarch64, from a machine that is none:
#   tools/scripts/aarch64.sh            checks the workspace, and runs the unit tests of what has no sockets and no driver
#   tools/scripts/aarch64.sh check      only whether the workspace compiles, without its tests
#   tools/scripts/aarch64.sh packages FOLDER
#                                       the wheels and packages as well, and the command in them once
# It takes Rust's target and Debian's cross compiler and emulator; what is missing is fetched where that is allowed, or else
# it says that it is skipped. On an aarch64 machine `cargo xtask test` is the test.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=aarch64-unknown-linux-gnu
packages=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)

# The end of the script, unless this machine must have what is missing.
skip() {
    echo "skipped: $*"
    [[ ,${TCPX_TEST_REQUIRE:-}, != *,aarch64,* ]] || exit 1
    exit 0
}

if [[ $(uname -m) == aarch64 ]]; then
    skip "this machine is one"
fi
if ! rustup target list --installed 2>/dev/null | grep -qx "$target"; then
    timeout 300 rustup target add "$target" >/dev/null 2>&1 || skip "there is no Rust for $target here"
fi
for tool in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do
    if ! command -v "$tool" >/dev/null; then
        DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -o DPkg::Lock::Timeout=200 install -y -q \
            --no-install-recommends "${packages[@]}" >/dev/null 2>&1 ||
            skip "there is no $tool (Debian: apt-get install ${packages[*]})"
    fi
done

export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"

if [[ ${1:-} == packages ]]; then
    folder=${2:?a folder for the packages}
    . tools/scripts/glibc.sh
    for package in python wheel package; do
        cargo xtask "$package" --arch aarch64 --profile dev --out "$folder" "${glibc[@]}"
    done
    unpacked=$(mktemp -d)
    trap 'rm -r "$unpacked"' EXIT
    tar -xzf "$folder"/tcpx-*-linux-aarch64.tar.gz --strip-components 1 -C "$unpacked"
    qemu-aarch64 -L /usr/aarch64-linux-gnu "$unpacked/bin/tcpx" --version
    exit
fi

if [[ ${1:-} == check ]]; then
    # The C of AWS-LC is compiled, though nothing is linked with it.
    exec cargo check --workspace --target "$target" --config profile.dev.package.aws-lc-sys.opt-level=0
fi
cargo check --workspace --all-targets --target "$target"
cargo test --target "$target" --lib --no-fail-fast -p tcpx-rx -p tcpx-unpack -p tcpx-seal -p tcpx-wire -p tcpx-protocol
