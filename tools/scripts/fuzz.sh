#!/usr/bin/env bash
# Runs fuzz targets, two at a time, and fails when one finds an input that breaks its property.
#
# usage: tools/scripts/fuzz.sh [SECONDS] [TARGET...]
#   SECONDS   how long each target runs (default: 60)
#   TARGET    which targets run (default: all of them)
#
# With a nightly toolchain the targets are built with AddressSanitizer. With any other toolchain
# they still have overflow checks, debug assertions and coverage. The build needs cargo alone, and
# goes to fuzz/target or CARGO_TARGET_DIR. An input that broke a property is left under
# fuzz/artifacts; fuzz/README.md says how to go on from there, with cargo-fuzz.
set -euo pipefail
. "$(dirname "$0")/usage.sh"
cd "$(dirname "$0")/../.."

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: $seconds is no number of seconds" >&2; exit 2; }
shift || true
targets=("$@")
if ((${#targets[@]} == 0)); then
    for source in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$source" .rs)"); done
fi

triple=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cdebug-assertions -Coverflow-checks -Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$option"
done
# An installed nightly is taken unless RUSTUP_TOOLCHAIN names another toolchain.
if [[ -z ${RUSTUP_TOOLCHAIN:-} ]] && rustup run nightly cargo --version >/dev/null 2>&1; then
    export RUSTUP_TOOLCHAIN=nightly
fi
if rustc --version | grep -q nightly; then
    flags+=" -Zsanitizer=address"
else
    echo "$(rustc --version) is no nightly toolchain: fuzzing without AddressSanitizer"
fi
# For a short run the build takes most of the time.
if ((seconds < 60)); then
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0
fi
# A --target keeps the flags away from build scripts and macros.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/fuzz/target}
RUSTFLAGS=$flags cargo build --manifest-path fuzz/Cargo.toml --release --target "$triple" --bins

# One target; its output is shown when it fails.
fuzz() {
    local target=$1 log status=0 kept=()
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    for folder in "tcpx-rx/tests/corpus/$target" "fuzz/seeds/$target"; do
        [[ -d $folder ]] && kept+=("$folder")
    done
    log=$(mktemp)
    # New inputs go to the first folder. No input may take 10 seconds or 2 GB.
    timeout $((seconds + 60)) "$CARGO_TARGET_DIR/$triple/release/$target" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -artifact_prefix="fuzz/artifacts/$target/" "fuzz/corpus/$target" "${kept[@]}" \
        >"$log" 2>&1 || status=$?
    if ((status == 0)); then
        echo "$target: $(tail -n 1 "$log")"
    else
        echo "$target: failed with status $status"
        tail -n 60 "$log"
    fi
    rm -f "$log"
    return "$status"
}

failed=0
for ((first = 0; first < ${#targets[@]}; first += 2)); do
    running=()
    for target in "${targets[@]:first:2}"; do
        fuzz "$target" &
        running+=($!)
    done
    for process in "${running[@]}"; do wait "$process" || failed=1; done
done
exit "$failed"
