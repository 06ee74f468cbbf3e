#!/usr/bin/env bash
# Makes tcpx-unpack/kernels/unpack.ptx from unpack.cu with the compiler of CUDA 12.2, so that the
# PTX (ISA 8.2) loads on driver 535 and newer, and proves that it assembles for sm_80 and sm_90.
#
# usage: tools/scripts/kernel-ptx.sh [--check]
#   --check   writes nothing, and fails when the committed file is not what would be written
#
# It needs python3 with venv, and a package index. It needs no CUDA installation and no GPU. The
# compiler is kept in KERNEL_PTX_VENV (default: target/kernel-ptx).
set -euo pipefail
cd "$(dirname "$0")/../.."

source_file=tcpx-unpack/kernels/unpack.cu
ptx_file=tcpx-unpack/kernels/unpack.ptx
arch=compute_80
newest_isa=8.2
venv=${KERNEL_PTX_VENV:-target/kernel-ptx}
packages=(nvidia-cuda-nvrtc-cu12==12.2.140 nvidia-cuda-nvcc-cu12==12.2.140)

case "${1-}" in
'' | --check) ;;
*)
    echo "usage: $0 [--check]" >&2
    exit 2
    ;;
esac

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
nvrtc=$(find "$venv" -name 'libnvrtc.so.12' -print -quit)
ptxas=$(find "$venv" -name ptxas -type f -print -quit)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" tools/scripts/kernel_ptx.py "$(realpath "$nvrtc")" "$source_file" "$arch" >"$work/unpack.ptx"

isa=$(sed -n 's/^\.version //p' "$work/unpack.ptx")
if [ "$(printf '%s\n' "$isa" "$newest_isa" | sort -V | tail -n 1)" != "$newest_isa" ]; then
    echo "PTX ISA $isa is newer than $newest_isa" >&2
    exit 1
fi
for gpu in sm_80 sm_90; do
    "$ptxas" --gpu-name "$gpu" --warning-as-error --verbose -o "$work/$gpu.cubin" "$work/unpack.ptx" 2>"$work/$gpu.log" || {
        cat "$work/$gpu.log" >&2
        exit 1
    }
    if ! grep -q ' 0 bytes spill stores' "$work/$gpu.log" || grep -q ' [1-9][0-9]* bytes spill' "$work/$gpu.log"; then
        echo "the kernel spills registers on $gpu:" >&2
        cat "$work/$gpu.log" >&2
        exit 1
    fi
done

if [ "${1-}" = --check ]; then
    diff -u "$ptx_file" "$work/unpack.ptx" || {
        echo "$ptx_file is stale: run tools/scripts/kernel-ptx.sh and commit it" >&2
        exit 1
    }
    echo "$ptx_file is up to date (PTX ISA $isa, assembled for sm_80 and sm_90)"
else
    cp "$work/unpack.ptx" "$ptx_file"
    echo "wrote $ptx_file (PTX ISA $isa, assembled for sm_80 and sm_90)"
fi
