#!/usr/bin/env bash
# Packs the GPU tests and benches, and the tcpx command, for a host that has a GPU and no Rust
# toolchain.
#
# usage: tools/scripts/gpu-bundle.sh [OUT.tar.gz]
#   OUT.tar.gz   where the bundle goes (default: target/gpu-bundle.tar.gz)
#
# On the GPU host:  tar xzf gpu-bundle.tar.gz && gpu-bundle/run
#
# The host needs a CUDA driver (535 or newer), a shell with coreutils, and glibc. The programs
# cannot be static, because they load the driver at run time. The bundle says which glibc it needs.
#
# COMPUTE_SANITIZER="DIR..." packs NVIDIA's compute-sanitizer too, in one or several versions. DIR
# is compute-sanitizer in a CUDA installation, or nvidia/cu13/compute-sanitizer of the wheel
# nvidia-cuda-sanitizer-api. Wheels of 13.2 and older lack TreeLauncherSubreaper, without which
# nothing starts; the one of 13.5 serves them too. The licence allows internal use only, so do not
# hand such a bundle on.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$(realpath -m "${1:-target/gpu-bundle.tar.gz}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/gpu-bundle
mkdir -p "$bundle" "$(dirname "$out")"

# One build for all, so that every crate is compiled once. Lines of "crate target program"; a test's
# program is in deps/.
packages=(tcpx-cuda tcpx-unpack tcpx-softnet tcpx-conformance tcpx-tests tcpx-cli)
targets=(--lib --test suite)
built=$work/built
cargo test --release --no-run --message-format=json-render-diagnostics "${packages[@]/#/--package=}" "${targets[@]}" |
    tools/scripts/test_programs.py >"$built"
cargo bench --no-run --message-format=json-render-diagnostics --package tcpx-unpack --bench unpack |
    sed -n 's|.*"executable":"\([^"]*\)".*|bench bench \1|p' >>"$built"
cargo build --release --package tcpx-cli
echo "cli cli ${CARGO_TARGET_DIR:-target}/release/tcpx" >>"$built"

# pack NAME CRATE TARGET
pack() {
    local program
    program=$(awk -v crate="$2" -v target="$3" '$1 == crate && $2 == target { print $3 }' "$built")
    [ -f "$program" ] || {
        echo "no program was built for $2, target $3" >&2
        exit 1
    }
    strip -o "$bundle/$1" "$program"
}

pack cuda-tests tcpx-cuda tcpx_cuda
pack softnet-tests tcpx-softnet tcpx_softnet
pack conformance-tests tcpx-conformance tcpx_conformance
pack unpack-tests tcpx-unpack tcpx_unpack
pack unpack-suite tcpx-unpack suite
pack session-suite tcpx-tests suite
pack bench bench bench
pack tcpx cli cli
programs=("$bundle"/*)
install -m 755 tools/scripts/gpu-bundle-run.sh "$bundle/run"

number=0
for folder in ${COMPUTE_SANITIZER:-}; do
    number=$((number + 1))
    packed=$bundle/compute-sanitizer-$number
    mkdir "$packed"
    cp "$folder"/*.so "$folder"/compute-sanitizer "$folder"/TreeLauncherSubreaper "$folder"/TreeLauncherTargetLdPreloadHelper \
        "$packed/"
    chmod 755 "$packed"/*
done

glibc=$(objdump --dynamic-syms "${programs[@]}" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
{
    echo "tcpx $(git describe --always --dirty 2>/dev/null || echo unknown)"
    echo "needs ${glibc/_/ } or newer and a CUDA driver, 535 or newer"
} >"$bundle/ABOUT"

tar --create --gzip --file "$out" --directory "$work" --owner=0 --group=0 gpu-bundle
cat "$bundle/ABOUT"
echo "packed $out ($(stat --format=%s "$out") bytes)"
