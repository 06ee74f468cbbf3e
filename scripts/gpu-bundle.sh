#!/usr/bin/env bash
# Packs the GPU tests and benches of tcpx-unpack for a host that has a GPU and no Rust toolchain.
#
#   scripts/gpu-bundle.sh [OUT.tar.gz]      (default: target/gpu-bundle.tar.gz)
#
# On the GPU host:  tar xzf gpu-bundle.tar.gz && gpu-bundle/run
# It needs a CUDA driver (535 or newer) and glibc; the driver is what forbids a static program,
# since it is loaded at run time. The package says which glibc at least.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${1:-target/gpu-bundle.tar.gz}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/gpu-bundle
mkdir -p "$bundle" "$(dirname "$out")"

# Paths of the programs that cargo makes for `cargo "$@"`.
programs() {
    cargo "$@" --no-run --message-format=json-render-diagnostics |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

pack() {
    local name=$1 program=$2
    strip -o "$bundle/$name" "$program"
}

pack unit-tests "$(programs test --release --package tcpx-unpack --lib)"
pack backend-tests "$(programs test --release --package tcpx-unpack --test backends)"
pack fault-test "$(programs test --release --package tcpx-unpack --test gpu_fault)"
pack bench "$(programs bench --package tcpx-unpack --bench unpack)"

cat >"$bundle/run" <<'RUN'
#!/bin/sh
# Runs the tests, where a missing GPU is a failure, and then the benches (markdown, also in
# results.md). `run tests` and `run bench` do one of the two.
set -eu
cd "$(dirname "$0")"
export TCPX_TEST_REQUIRE=gpu
case "${1-all}" in
all | tests)
    ./unit-tests
    ./backend-tests
    ./fault-test
    ;;
bench) ;;
*)
    echo "usage: run [tests|bench]" >&2
    exit 2
    ;;
esac
if [ "${1-all}" != tests ]; then
    ./bench >results.md
    cat results.md
fi
RUN
chmod +x "$bundle/run"

glibc=$(objdump --dynamic-syms "$bundle"/*-tests "$bundle"/fault-test "$bundle/bench" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
{
    echo "tcpx-unpack $(git describe --always --dirty 2>/dev/null || echo unknown)"
    echo "needs ${glibc/_/ } or newer and a CUDA driver, 535 or newer"
} >"$bundle/ABOUT"

tar --create --gzip --file "$out" --directory "$work" --owner=0 --group=0 gpu-bundle
cat "$bundle/ABOUT"
echo "packed $out ($(stat --format=%s "$out") bytes)"
