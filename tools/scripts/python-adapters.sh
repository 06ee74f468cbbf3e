#!/usr/bin/env bash
# Tests the adapters of the Python package below unmodified PyTorch, Ray and vLLM, on CPUs:
#   tools/scripts/python-adapters.sh all          builds the wheels first
#   tools/scripts/python-adapters.sh WHEEL        the wheel is from cargo xtask python; with that of cargo xtask wheel
#                                           beside it, torch's transport over NIXL is tested too
#   TCPX_ADAPTERS="torch ray" ...                 these alone
# Needs Python 3.12 and 13 GB on disk. What cannot be installed is skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
tests=$PWD/bindings/python/tests/adapters
wanted=${TCPX_ADAPTERS:-torch ray vllm}

if [[ ${1:?all, or a wheel} == all ]]; then
    wheel=$(cargo xtask python --profile release --out "$target/python")
    cargo xtask wheel --profile release --out "$target/python" >/dev/null
else
    wheel=$1
fi
wheel=$(realpath "$wheel")
for variable in "${!TCPX_@}"; do unset "$variable"; done
export TCPX_LISTEN=127.0.0.1:0 PYTHONDONTWRITEBYTECODE=1

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

# Makes the environment $1 unless it is there as the function $2 fills it, and installs the wheel.
environment() {
    local folder=$target/adapters-$1
    if [[ $(cat "$folder/complete" 2>/dev/null) != "$(declare -f "$2")" ]]; then
        rm -rf "$folder"
        "$python" -m venv "$folder"
        "$folder/bin/pip" install -q --retries 1 --timeout 60 uv pytest 'pyright[nodejs]' || return 1
        "$2" "$folder/bin/uv" pip install -q --python "$folder/bin/python" || return 1
        declare -f "$2" >"$folder/complete"
    fi
    "$folder/bin/uv" pip install -q --python "$folder/bin/python" --reinstall --no-deps "$wheel"
}

# NIXL without what it needs for GPUs: torch has that too, for CUDA 13.
with_ray() { "$@" numpy torch==2.15.0 ray==2.60.0 && "$@" --no-deps nixl==1.5.1 nixl-cu13==1.5.1; }

# Installs the backend into environment $1, by the extra of the wheel, and beside NIXL's own.
with_backend() {
    local bin=$target/adapters-$1/bin
    "$bin/uv" pip install -q --python "$bin/python" --reinstall-package nixl-tcpx --no-index \
        --find-links "$(dirname "$wheel")" "tcpx[nixl] @ file://$wheel"
    "$bin/python" -m nixl_tcpx install
}

# Of what vLLM asks for, what its weight transfer imports on a CPU: no kernels for GPUs.
with_vllm() {
    "$@" numpy torch==2.14.0 torchvision==0.29.0 'transformers>=5.16.1,<5.21.0' 'setuptools<81' numba==0.65.0 \
        compressed-tensors==0.17.0 depyf==0.20.0 lark==1.2.2 apache-tvm-ffi==0.1.11 'llguidance<1.8.0' \
        aiohttp anthropic blake3 cachetools cbor2 certifi cloudpickle einops fastapi huggingface_hub ijson jsonschema mcp \
        mistral_common model-hosting-container-standards msgspec ninja openai openai-harmony opentelemetry-api \
        opentelemetry-exporter-otlp opentelemetry-sdk opentelemetry-semantic-conventions-ai orjson oss-harmony \
        partial-json-parser pillow prometheus-fastapi-instrumentator prometheus_client protobuf psutil py-cpuinfo \
        pybase64 pydantic python-json-logger pyyaml pyzmq regex requests safetensors sentencepiece setproctitle six \
        starlette tiktoken tokenizers tqdm uvloop watchfiles || return 1
    # Its parsers of grammars import each other, and ask for versions that it does not need.
    "$@" --no-deps xgrammar==0.2.8 outlines_core==0.2.14 lm-format-enforcer==0.11.3 interegular || return 1
    "$@" --no-deps vllm==0.33.0
}

# Checks the types of the package in environment $1, except in files that $2 names. $3 are more settings.
types() {
    local folder=$target/adapters-$1
    rm -rf "$folder/strict"
    mkdir -p "$folder/strict"
    cp -r "$tests/../../tcpx" "$folder/strict/tcpx"
    rm -f "$folder"/strict/tcpx/*.so
    cat >"$folder/strict/pyrightconfig.json" <<EOF
{
    "typeCheckingMode": "strict", "reportPrivateUsage": false, "reportMissingModuleSource": false,
    "include": ["tcpx"], "exclude": [$2]${3:-}
}
EOF
    (cd "$folder/strict" && PATH=$folder/bin:$PATH pyright -p .)
}

run() { (cd "$target/adapters-$1" && bin/python -m pytest -q -rs -p no:cacheprovider "${@:2}"); }

if [[ $wanted == *torch* || $wanted == *ray* ]]; then
    if environment ray with_ray; then
        [[ $wanted != *torch* ]] || run ray "$tests/test_torch_transport.py"
        if [[ $wanted == *torch* ]] && compgen -G "$(dirname "$wheel")/nixl_tcpx-*.whl" >/dev/null; then
            with_backend ray
            run ray "$tests/test_torch_nixl.py"
        fi
        [[ $wanted != *ray* ]] || run ray "$tests/test_ray.py"
        types ray '"tcpx/_vllm_*.py", "tcpx/vllm.py"'
    else
        echo "skipped: torch and Ray cannot be installed"
    fi
fi
if [[ $wanted == *vllm* ]]; then
    if environment vllm with_vllm; then
        run vllm "$tests/test_vllm.py"
        # vLLM leaves types of its own functions open.
        types vllm '"tcpx/_torch_work.py", "tcpx/torch.py", "tcpx/ray.py"' \
            ', "reportUnknownMemberType": false, "reportUnknownVariableType": false'
    else
        echo "skipped: vLLM cannot be installed"
    fi
fi
