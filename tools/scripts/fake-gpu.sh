#!/usr/bin/env bash
# Runs the GPU suite on a machine without a GPU, over tcpx-tests/doubles/fake-cuda: a CUDA driver whose device
# memory the CPU may not touch. Code that would crash on a GPU host crashes here.
#
# usage: tools/scripts/fake-gpu.sh [tests|original|conformance|perf]...   (default: all, in this order)
#
# original: the same over a plugin that is as inconvenient, harmful and fatal as the original
# (tcpx-tests/doubles/original). Every run ends verified, or with an error of ours within its deadline.
#
# A missing GPU is a failure here, as on a host that has one. Nothing that is measured over it says
# anything about a GPU. Builds are those of `cargo test --workspace`.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-target}
folder=$(realpath -m "$target/fake-gpu")
original=$target/debug/deps/libnccl_net_tcpx_original.so
built=$(mktemp)
trap 'rm -f "$built"' EXIT

# Lines of "crate target program". The suite of tcpx-cli brings the command with it.
cargo test --workspace --no-run --message-format=json-render-diagnostics --lib --test suite |
    tools/scripts/test_programs.py >"$built"
cargo build -p tcpx-fake-cuda
mkdir -p "$folder"
cp "$target/debug/libtcpx_fake_cuda.so" "$folder/libcuda.so.1"
ln -sf libcuda.so.1 "$folder/libcuda.so"

# with_driver LIMIT_S COMMAND...: in place of a real one
with_driver() {
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TCPX_TEST_REQUIRE=gpu timeout -k 5 "$@"
}

# part LIMIT_S COMMAND...: which succeeds
part() {
    local begin=$SECONDS
    echo "+ ${*:2}"
    with_driver "$@"
    echo "  passed in $((SECONDS - begin)) s"
}

# program CRATE TARGET
program() {
    local found
    found=$(awk -v crate="$1" -v target="$2" '$1 == crate && $2 == target { print $3 }' "$built")
    [ -x "$found" ] || {
        echo "no program was built for $1, target $2" >&2
        exit 1
    }
    echo "$found"
}

# suite CRATE LIMIT_S MODULE...: these modules of the crate's test program, deep tests too
suite() {
    local crate=$1 limit=$2 skip=()
    shift 2
    # A name of a test is looked for anywhere: gpu:: is a part of fake_gpu:: as well.
    [[ " $* " == *" fake_gpu:: "* ]] || skip=(--skip fake_gpu::)
    part "$limit" "$(program "$crate" suite)" "$@" "${skip[@]}" --include-ignored
}

tests() {
    local bounce
    part 120 "$(program tcpx-cuda tcpx_cuda)"
    part 120 "$(program tcpx-unpack tcpx_unpack)"
    # More of the same submissions are for a GPU, and for memory of the host.
    suite tcpx-unpack 300 backends:: gpu_fault:: --skip many_more_submits
    part 120 "$(program tcpx-softnet tcpx_softnet)"
    suite tcpx-softnet 120 driver_calls::
    # What the core does with GPUs by itself. All else of it is in the sessions.
    part 120 "$(program tcpx-core tcpx_core)" memory::
    suite tcpx-tests 400 encrypted_wires:: fake_gpu:: gpu_fault:: gpu_group:: gpu_for_hardware:: hardware_plugin:: lost_nics:: \
        one_transport::
    for bounce in host device; do
        TCPX_SOFT_BOUNCE=$bounce suite tcpx-tests 400 gpu:: gpu_one_sided::
    done
    part 120 "$(program tcpx-conformance tcpx_conformance)"
    suite tcpx-conformance 300 cuda
    # A C program that calls ordinary memory a GPU's, and programs to which the driver shows no GPU.
    suite tcpx-capi 180 wrong_arguments plugin_api
}

# refused ID COMMAND...: it ends by itself with an error
refused() {
    local id=$1 status=0 words
    shift
    echo "+ $*"
    words=$(with_driver 60 "$@" 2>&1) || status=$?
    if [ "$status" -eq 0 ] || [ "$status" -ge 124 ] || [[ $words != *"$id"* ]]; then
        printf '%s\n%s\n' "$words" "status $status instead of an error with $id" >&2
        exit 1
    fi
    echo "  refused, with $id"
}

original() {
    local tcpx=$target/debug/tcpx unpack
    suite tcpx-tests 300 as_the_original::
    suite tcpx-capi 120 as_the_original
    (
        export TCPX_PLUGIN=$original TCPX_PREFLIGHT=0
        # With the original's own waiting time, and then with less.
        part 60 "$tcpx" connect --gpu 0 --channels 8
        export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=100000
        for unpack in host d2d kernel; do
            part 120 "$tcpx" perf --memory cuda --gpu 1 --unpack "$unpack" --channels 4 --sweep 4K..16M --iters 2 --warmup 1
        done
        part 60 "$tcpx" transfer --memory cuda --gpu 0
        refused TCPX-229 "$tcpx" perf --memory host
    )
}

conformance() {
    part 400 "$target/debug/tcpx" conformance --plugin soft --memory cuda --gpu 0
    TCPX_SOFT_BOUNCE=device TCPX_SOFT_POISON=1 part 200 "$target/debug/tcpx" conformance --plugin soft --memory cuda \
        --gpu 0 --only entries --only sizes --only host --only queue
    # The original breaks no rule of its own, not even those that crash it.
    NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=10000 TCPX_PREFLIGHT=0 part 400 "$target/debug/tcpx" \
        conformance --plugin "$original" --destructive --jobs 4 --timeout 390
}

perf() {
    local bounce unpack
    for bounce in host device; do
        for unpack in host d2d kernel; do
            TCPX_SOFT_BOUNCE=$bounce part 120 "$target/debug/tcpx" perf --memory cuda --gpu 0 --unpack "$unpack" \
                --size 4MiB --iters 3 --warmup 1
        done
    done
    for unpack in host d2d kernel; do
        part 120 "$target/debug/tcpx" perf --op write --memory cuda --gpu 0 --unpack "$unpack" --descriptors 100 --scattered \
            --iters 2 --warmup 1
    done
}

[ $# -gt 0 ] || set -- tests original conformance perf
for set in "$@"; do
    case $set in
    tests | original | conformance | perf) "$set" ;;
    *)
        echo "usage: $0 [tests|original|conformance|perf]..." >&2
        exit 2
        ;;
    esac
done
echo "the GPU suite passed in $SECONDS s"
