#!/usr/bin/env bash
# Runs the transfers of programs that use NIXL, unmodified and in two processes on this machine's CPU, over TCPX, TCPX encrypted,
# emulated memory of a GPU, and UCX: LMCache's channel `nixl`, and SGLang's managers of caches.
#
# usage: tools/scripts/nixl-programs.sh [--plugin FOLDER] [TEST...]
#   --plugin FOLDER  has libplugin_TCPX.so; without it, cargo builds it
#   TEST             of tcpx, encrypted, emulated_gpu (LMCache alone) and ucx (default: all)
#
# Needs Linux on x86-64, Python 3.12, and the first time the package index: some 6 GB on disk. What cannot be installed is skipped, with
# the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/scripts/usage.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
environment=$target/nixl-programs
# Of what LMCache and SGLang ask for, what these parts of them import on a CPU.
wanted="torch==2.15.0 torchvision==0.29.2 numpy<=2.2.6 aiofiles aiohttp apache-tvm-ffi blake3 cachetools compressed-tensors dill
    fastapi gguf ipython msgspec numba opentelemetry-api orjson pillow prometheus_client psutil py-cpuinfo pybase64 pydantic
    pyyaml pyzmq requests sentencepiece setuptools<81 sortedcontainers transformers uvicorn uvloop"
# Without what they need for GPUs: torch has that too.
alone="lmcache==0.5.6 sglang==0.5.23 nixl==1.5.1 nixl-cu13==1.5.1"

plugin=
if [[ ${1:-} == --plugin ]]; then
    plugin=$(realpath "${2:?the folder of libplugin_TCPX.so; see --help}")
    shift 2
fi

python=
for candidate in python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [[ -z $python ]]; then
    echo "skipped: there is no Python 3.12 here"
    exit 0
fi

install() {
    rm -rf "$environment"
    "$python" -m venv "$environment" || return
    "$environment/bin/python" -m pip install -q --retries 1 --timeout 60 uv || return
    local pip=("$environment/bin/uv" pip install -q --python "$environment/bin/python")
    # shellcheck disable=SC2086
    "${pip[@]}" $wanted || return
    # shellcheck disable=SC2086
    "${pip[@]}" --no-deps $alone || return
    echo "$wanted $alone" >"$environment/complete"
}

if [[ $(cat "$environment/complete" 2>/dev/null) != "$wanted $alone" ]] && ! install; then
    echo "skipped: LMCache and SGLang cannot be installed"
    exit 0
fi
if [[ -z $plugin ]]; then
    . tools/scripts/glibc.sh
    plugin=$target/nixl
    cargo xtask nixl --profile dev --out "$plugin" "${glibc[@]}"
fi

# Nothing of the caller's environment chooses another plugin, settings or a GPU.
for variable in "${!TCPX_@}"; do unset "$variable"; done
export CUDA_VISIBLE_DEVICES='' LMCACHE_LOG_LEVEL=ERROR NIXL_LOG_LEVEL=${NIXL_LOG_LEVEL:-ERROR} PYTHONDONTWRITEBYTECODE=1
(($#)) || set -- tcpx encrypted emulated_gpu ucx
for test in "$@"; do
    for program in lmcache_channel sglang_caches; do
        # Not tried of SGLang.
        [[ $program/$test != sglang_caches/emulated_gpu ]] || continue
        echo "-- $program"
        if [[ $test == ucx ]]; then
            # NIXL's own folder has it.
            env -u NIXL_PLUGIN_DIR UCX_TLS=tcp "$environment/bin/python" -W ignore "bindings/nixl/tests/$program.py" "$test"
        else
            NIXL_PLUGIN_DIR=$plugin "$environment/bin/python" -W ignore "bindings/nixl/tests/$program.py" "$test"
        fi
    done
done
