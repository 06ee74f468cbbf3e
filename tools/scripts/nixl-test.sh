#!/usr/bin/env bash
# Tests the NIXL backend against an unmodified NIXL of PyPI, on the CPU:
#   tools/scripts/nixl-test.sh install             a Python with the wheel of version $NIXL_VERSION, whose
#                                            path is printed: 100 MB to download, 350 MB on disk
#   tools/scripts/nixl-test.sh FOLDER [PYTHON]     FOLDER has libplugin_TCPX.so, from
#                                            cargo xtask nixl --out FOLDER
#   tools/scripts/nixl-test.sh soak FOLDER SECONDS [PYTHON]
#                                            everything that agents do for so long, over and over:
#                                            memory, threads and descriptors must stay as they are
#   tools/scripts/nixl-test.sh idle FOLDER SECONDS [PYTHON]
#                                            a transfer after this time without one
#   tools/scripts/nixl-test.sh encrypted FOLDER [PYTHON]
#                                            all that moves bytes once more, with TCPX_ENCRYPTION=require
#   tools/scripts/nixl-test.sh wheel FILE [PYTHON] FILE is from cargo xtask wheel; it is installed, tried
#                                            and removed
#   tools/scripts/nixl-test.sh all                 builds backend and wheel, and tests both; says that it is
#                                            skipped where NIXL cannot be installed
#   tools/scripts/nixl-test.sh soak-all SECONDS    builds the backend, and soaks it
#   tools/scripts/nixl-test.sh encrypted-all       builds the backend, and tests it encrypted
#   tools/scripts/nixl-test.sh idle-all SECONDS    builds the backend, and lets it idle
set -euo pipefail
cd "$(dirname "$0")/../.."

install() {
    local version=${NIXL_VERSION:-1.5.1}
    local environment=${CARGO_TARGET_DIR:-$PWD/target}/nixl-$version
    local python=$environment/bin/python
    if ! "$python" -c 'import nixl, numpy' 2>/dev/null; then
        rm -rf "$environment"
        python3 -m venv "$environment" >&2 || return
        local pip=("$python" -m pip install -q --retries 1 --timeout 10)
        # Without their dependencies: torch and CUDA, of some GB, which no test here needs.
        "${pip[@]}" --no-deps "nixl==$version" "nixl-cu12==$version" >&2 || return
        "${pip[@]}" numpy >&2 || return
    fi
    echo "$python"
}

# Bounds of `verify` for a busy machine.
patience=(--seconds 600 --within 300 --slow 120)

if [[ ${1:?the folder of libplugin_TCPX.so, or install} == install ]]; then
    install
    exit
fi
if [[ $1 == all || $1 == soak-all || $1 == encrypted-all || $1 == idle-all ]]; then
    . tools/scripts/glibc.sh
    folder=${CARGO_TARGET_DIR:-$PWD/target}/nixl
    python=$(install) || { echo "skipped: NIXL cannot be installed"; exit; }
    cargo xtask nixl --profile dev --out "$folder" "${glibc[@]}"
    if [[ $1 == soak-all ]]; then exec tools/scripts/nixl-test.sh soak "$folder" "${2:?for how many seconds}" "$python"; fi
    if [[ $1 == idle-all ]]; then exec tools/scripts/nixl-test.sh idle "$folder" "${2:?for how many seconds}" "$python"; fi
    if [[ $1 == encrypted-all ]]; then exec tools/scripts/nixl-test.sh encrypted "$folder" "$python"; fi
    tools/scripts/nixl-test.sh "$folder" "$python"
    exec tools/scripts/nixl-test.sh wheel "$(cargo xtask wheel --profile dev --out "$folder" "${glibc[@]}")" "$python"
fi
if [[ $1 == wheel ]]; then
    wheel=$2
    python=${3:-$(install)}
    "$python" bindings/nixl/tests/file.py "$wheel"
    "$python" -m pip install -q --no-deps --force-reinstall "$wheel"
    "$python" -m nixl_tcpx install
    env -u NIXL_PLUGIN_DIR "$python" -m nixl_tcpx check
    env -u NIXL_PLUGIN_DIR "$python" -m nixl_tcpx verify --only repost "${patience[@]}"
    # In the place of UCX, which comes back.
    "$python" -m nixl_tcpx install --as UCX
    env -u NIXL_PLUGIN_DIR "$python" -m nixl_tcpx check
    "$python" -m nixl_tcpx uninstall
    if "$python" -m nixl_tcpx uninstall 2>/dev/null; then
        echo "error: uninstall has left something" >&2
        exit 1
    fi
    "$python" -m pip uninstall -q -y nixl-tcpx
    exit
fi
soak=
if [[ $1 == soak ]]; then
    soak=${3:?for how many seconds}
    set -- "$2" "${@:4}"
fi
idle=
if [[ $1 == idle ]]; then
    idle=${3:?for how many seconds}
    set -- "$2" "${@:4}"
fi
encryption=
if [[ $1 == encrypted ]]; then
    encryption=require
    shift
fi
folder=$(realpath "$1")
python=${2:-$(install)}

# Nothing of the caller's environment chooses another plugin, settings or a GPU.
for variable in "${!TCPX_@}"; do unset "$variable"; done
export NIXL_PLUGIN_DIR=$folder NIXL_LOG_LEVEL=${NIXL_LOG_LEVEL:-ERROR}
if [[ $soak ]]; then
    exec "$python" bindings/nixl/tests/soak.py "$soak"
fi
if [[ $idle ]]; then
    export PYTHONPATH=bindings/nixl/python
    exec "$python" -m nixl_tcpx verify --only idle --idle "$idle" "${patience[@]}" --seconds $((2 * idle + 600))
fi
run_tests() {
    local test
    for test in "$@"; do
        echo "-- $test"
        "$python" "bindings/nixl/tests/$test.py"
    done
}
if [[ $encryption ]]; then
    export TCPX_ENCRYPTION=$encryption
    run_tests stand_ins transfers ends phases devices gpus tensor soak
    exit
fi

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
echo "-- units"
c++ -std=c++17 -Wall -Wextra -fsanitize=address,undefined -I include -I bindings/nixl/src \
    bindings/nixl/tests/units.cpp bindings/nixl/src/envelope.cpp bindings/nixl/src/peer_names.cpp -o "$work/units"
"$work/units"

echo "-- the file needs nothing of tcpx or NIXL"
"$python" bindings/nixl/tests/file.py "$folder/libplugin_TCPX.so"
others=$(LC_ALL=C readelf -d "$folder/libplugin_TCPX.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(libstdc\+\+|libgcc_s|libc|libm|libpthread|libdl|ld-linux-[^.]*)\.so' || true)
if [[ $others ]]; then
    echo "error: it needs $others" >&2
    exit 1
fi

run_tests vtable stand_ins transfers shown encrypted ends phases devices gpus refusals tensor verified soak

echo "-- verify"
# Those that no test above has, or has without another backend to compare with.
checks=(torn-writes truncated-reads overlapping-lists release-active deregister-under-reads peer-killed peer-stopped
    fork all-to-all)
PYTHONPATH=bindings/nixl/python "$python" -m nixl_tcpx verify --stopped 1 "${patience[@]}" "${checks[@]/#/--only=}"
