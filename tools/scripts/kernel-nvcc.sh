#!/usr/bin/env bash
# Builds tcpx-unpack with the kernel compiled by nvcc 13, as a machine with a CUDA toolkit does, so
# that an error in kernels/unpack.cu shows. (kernel-ptx.sh makes the committed PTX with the compiler
# of CUDA 12.2.)
#
# usage: tools/scripts/kernel-nvcc.sh
#
# It needs cargo, a C++ compiler, python3 with venv, and a package index. It needs no CUDA
# installation and no GPU. The compiler is kept in KERNEL_NVCC_VENV (default: target/kernel-nvcc).
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=$(realpath -m "${KERNEL_NVCC_VENV:-target/kernel-nvcc}")
packages=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl)

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]/%/==13.0.*}"

# No NVCC, CUDA_HOME or CUDA_PATH: build.rs must find it where pip puts it, by the python3 on PATH.
built=$venv/built
rm -rf "$built"
env -u NVCC -u CUDA_HOME -u CUDA_PATH PATH="$venv/bin:$PATH" \
    cargo check --quiet --package tcpx-unpack --target-dir "$built"

# Without a working nvcc build.rs is content with the committed PTX.
ptx=$(find "$built" -path '*/tcpx-unpack-*/out/unpack.ptx' -print -quit)
if [ -z "$ptx" ]; then
    echo "build.rs did not use the nvcc of $venv" >&2
    exit 1
fi
echo "nvcc 13 compiles kernels/unpack.cu (PTX ISA $(sed -n 's/^\.version //p' "$ptx"))"
