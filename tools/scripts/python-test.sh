#!/usr/bin/env bash
# Tests the Python package as users get it, from its wheel in fresh environments:
#   tools/scripts/python-test.sh all               builds the wheel, and tests it with each Python from 3.10 on that is here
#   tools/scripts/python-test.sh ends              the same with the oldest and the newest of these: it is one wheel for all
#   tools/scripts/python-test.sh WHEEL [PYTHON...] the wheel is from cargo xtask python
# With TCPX_TEST_LARGE=1 a GiB moves as well, and TCPX_SOAK_SECONDS is the length of the soak at the end, 20 without it.
#   tools/scripts/python-test.sh soak SECONDS      builds it, and does everything over and over: memory, threads and
#                                            descriptors must stay as they are
# Where packages of PyPI cannot be installed it says that it is skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
tests=$PWD/bindings/python/tests

build() {
    . tools/scripts/glibc.sh >&2
    cargo xtask python --profile dev --out "$target/python" "${glibc[@]}"
}

# Prints one interpreter for each version from 3.10 on.
pythons() {
    local minor candidate
    for minor in 10 11 12 13 14 15; do
        for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python python3; do
            if [[ $("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) == "3.$minor" ]]; then
                echo "$candidate"
                continue 2
            fi
        done
        echo "skipped: there is no Python 3.$minor here" >&2
    done
}

# Makes a fresh environment in folder $1 with Python $2, and installs the rest of the arguments.
environment() {
    rm -rf "$1"
    "$2" -m venv "$1"
    "$1/bin/python" -m pip install -q --retries 1 --timeout 10 --disable-pip-version-check "${@:3}"
}

# Checks the types of the package's own files in folder $1 with pyright, except those that $2 names.
strict() {
    rm -rf "$1"
    mkdir -p "$1"
    cp -r "$tests/../tcpx" "$1/tcpx"
    rm -f "$1"/tcpx/*.so
    # The files of a package use each other's underscored names.
    cat >"$1/pyrightconfig.json" <<EOF
{
    "typeCheckingMode": "strict", "reportPrivateUsage": false, "reportMissingModuleSource": false,
    "include": ["tcpx"], "exclude": [$2]
}
EOF
    pyright -p "$1"
}

# Nothing of the caller's environment chooses another plugin, settings or a GPU.
soak=${TCPX_SOAK_SECONDS:-20} large=${TCPX_TEST_LARGE:-}
for variable in "${!TCPX_@}"; do unset "$variable"; done
[[ -z $large ]] || export TCPX_TEST_LARGE=$large
export TCPX_LISTEN=127.0.0.1:0 PYTHONDONTWRITEBYTECODE=1

if [[ ${1:?all, ends, soak or a wheel} == soak ]]; then
    wheel=$(build)
    environment "$target/python-soak" python3 "$wheel"
    exec "$target/python-soak/bin/python" "$tests/soak.py" "${2:?for how many seconds}"
fi
if [[ $1 == all || $1 == ends ]]; then
    wheel=$(build)
    mapfile -t found < <(pythons)
    [[ $1 == all ]] || ((${#found[@]} < 3)) || found=("${found[0]}" "${found[-1]}")
else
    wheel=$(realpath "$1")
    found=("${@:2}")
    ((${#found[@]})) || mapfile -t found < <(pythons)
fi
newest=${found[-1]}
for python in "${found[@]}"; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "-- Python $version"
    folder=$target/python-$version
    wanted=("$wheel" pytest)
    # The newest has what the package can use, the others do without.
    [[ $python != "$newest" ]] || wanted+=(numpy uvloop mypy 'pyright[nodejs]')
    if ! environment "$folder" "$python" "${wanted[@]}"; then
        echo "skipped: packages for Python $version cannot be installed"
        continue
    fi
    (cd "$folder" && bin/python -m pytest -q -p no:cacheprovider --durations=3 --ignore "$tests/adapters" "$tests")
    if [[ $python == "$newest" ]]; then
        echo "-- types"
        (cd "$folder" && bin/mypy --config-file "$tests/../mypy.ini" --cache-dir=/dev/null -p tcpx)
        (cd "$folder" && bin/mypy --strict --cache-dir=/dev/null "$tests/typed.py")
        if "$folder/bin/pyright" --version >/dev/null 2>&1; then
            cat >"$folder/pyrightconfig.json" <<<'{"typeCheckingMode": "strict", "include": ["typed.py"]}'
            cp "$tests/typed.py" "$folder/typed.py"
            (
                cd "$folder" && PATH=$folder/bin:$PATH && pyright -p .
                # The adapters are checked beside the packages that they adapt to: python-adapters.sh
                adapters='"tcpx/_tensors.py", "tcpx/_torch_work.py", "tcpx/torch.py", "tcpx/ray.py"'
                strict "$folder/strict" "$adapters"', "tcpx/_vllm_*.py", "tcpx/vllm.py"'
                cd / && { pyright --verifytypes tcpx --ignoreexternal --outputjson || true; } | python "$tests/known_types.py"
            )
        else
            echo "skipped: pyright cannot be installed"
        fi
        echo "-- demo"
        bin=$folder/bin/python
        "$bin" -m tcpx.demo --seconds 0.5
        echo "-- leaks"
        "$bin" "$tests/soak.py" "$soak"
    fi
done
