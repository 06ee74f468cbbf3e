#!/usr/bin/env bash
# Packs the GPU tests and benches, and the tcpx command, for a host that has a GPU and no Rust toolchain.
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

pack cuda-tests "$(programs test --release --package tcpx-cuda --lib)"
pack unit-tests "$(programs test --release --package tcpx-unpack --lib)"
pack backend-tests "$(programs test --release --package tcpx-unpack --test backends)"
pack fault-test "$(programs test --release --package tcpx-unpack --test gpu_fault)"
pack bench "$(programs bench --package tcpx-unpack --bench unpack)"
# Building a test builds the programs of its package as well; the test is the one in deps/.
pack session-tests "$(programs test --release --package tcpx-tests --test gpu | grep '/deps/')"
cargo build --release --package tcpx-cli
pack tcpx "${CARGO_TARGET_DIR:-target}/release/tcpx"

cat >"$bundle/run" <<'RUN'
#!/bin/sh
# Runs the tests, where a missing GPU is a failure, then whole sessions and the command, then the
# benches (markdown, also in results.md). `run tests`, `run e2e` and `run bench` do one of the three.
set -eu
cd "$(dirname "$0")"
export TCPX_TEST_REQUIRE=gpu

tests() {
    ./cuda-tests
    ./unit-tests
    ./backend-tests
    ./fault-test
}

# Sessions in one process, then the command as two processes on one GPU; every step has a limit.
# A failed step fails the run, and the steps after it are done all the same.
e2e() {
    failed=0
    step() {
        echo "+ $*"
        timeout 60 "$@" || { echo "FAILED with $?: $*"; failed=1; }
    }
    step ./session-tests --test-threads 1
    for unpack in host d2d kernel; do
        step ./tcpx perf --memory cuda --gpu 0 --unpack "$unpack" --json
        step ./tcpx transfer --memory cuda --gpu 0 --unpack "$unpack"
    done
    for memory in emulated host; do
        step ./tcpx perf --memory "$memory" --json
    done
    return "$failed"
}

bench() {
    ./bench >results.md
    cat results.md
}

case "${1-all}" in
all)
    tests
    e2e
    bench
    ;;
tests | e2e | bench) "$1" ;;
*)
    echo "usage: run [tests|e2e|bench]" >&2
    exit 2
    ;;
esac
RUN
chmod +x "$bundle/run"

glibc=$(objdump --dynamic-syms "$bundle"/*-tests "$bundle"/fault-test "$bundle"/bench "$bundle"/tcpx | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
{
    echo "tcpx $(git describe --always --dirty 2>/dev/null || echo unknown)"
    echo "needs ${glibc/_/ } or newer and a CUDA driver, 535 or newer"
} >"$bundle/ABOUT"

tar --create --gzip --file "$out" --directory "$work" --owner=0 --group=0 gpu-bundle
cat "$bundle/ABOUT"
echo "packed $out ($(stat --format=%s "$out") bytes)"
