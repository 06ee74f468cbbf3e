#!/bin/sh
# Runs what tools/scripts/gpu-bundle.sh packed, on a host with a GPU. A missing GPU is a failure here.
#
# usage: gpu-bundle/run [tests|conformance|e2e|bench|sanitizer]...
#   (default: all parts, in this order)
#
# Each part has a time limit of its own. If a part fails, the others run all the same. Output goes
# to the folder OUT (default: results beside this script): NAME.txt for each part, NAME.json and
# bench.md for parts with figures, summary.txt and summary.json, and all of these in
# results.tar.gz. TCPX_BUNDLE_LIMIT_S limits the whole run, in seconds (default: 3600).
# compute-sanitizer is looked for in the bundle, on PATH and in CUDA_HOME; the first that works with
# this driver is used. The exit status is 0 when every part passed.
set -u
cd "$(dirname "$0")" || exit 1
export TCPX_TEST_REQUIRE=gpu
out=${OUT:-$PWD/results}
mkdir -p "$out" || exit 1
end=$(($(date +%s) + ${TCPX_BUNDLE_LIMIT_S:-3600}))
parts=
failed=0

# note NAME STATUS SECONDS
note() {
    parts="$parts${parts:+,}
    {\"name\": \"$1\", \"status\": \"$2\", \"seconds\": $3}"
    printf '%-34s %-8s %4s s\n' "$1" "$2" "$3" | tee -a "$out/summary.txt"
}

# run_part NAME LIMIT_S STDOUT COMMAND...
run_part() {
    name=$1 limit=$2 stdout=$3
    shift 3
    begin=$(date +%s)
    left=$((end - begin))
    if [ "$left" -le 0 ]; then
        failed=$((failed + 1))
        note "$name" "no time" 0
        return
    fi
    [ "$limit" -le "$left" ] || limit=$left
    echo "+ $*" >"$out/$name.txt"
    timeout -k 5 "$limit" "$@" >>"$stdout" 2>>"$out/$name.txt"
    code=$?
    case $code in
    0) status=pass ;;
    124 | 137) status=timeout ;;
    *) status="fail $code" ;;
    esac
    if [ $code -ne 0 ]; then
        failed=$((failed + 1))
        tail -n 15 "$out/$name.txt" | sed 's/^/    | /'
    fi
    note "$name" "$status" $(($(date +%s) - begin))
}

# part NAME LIMIT_S COMMAND...: all output to NAME.txt
part() {
    part_name=$1 part_limit=$2
    shift 2
    run_part "$part_name" "$part_limit" "$out/$part_name.txt" "$@"
}

# figures NAME LIMIT_S COMMAND...: standard output to NAME.json
figures() {
    figures_name=$1 figures_limit=$2
    shift 2
    : >"$out/$figures_name.json"
    run_part "$figures_name" "$figures_limit" "$out/$figures_name.json" "$@"
}

tests() {
    part cuda-tests 60 ./cuda-tests
    part softnet-tests 60 ./softnet-tests
    part conformance-tests 60 ./conformance-tests
    part unpack-tests 60 ./unpack-tests
    part backend-tests 120 ./unpack-suite backends::
    part unpack-fault 60 ./unpack-suite gpu_fault::
    # The name of a test is looked for anywhere in its path.
    part session-tests 120 ./session-suite gpu:: --skip fake_gpu:: --test-threads 1
    part session-tests-device-bounce 120 env TCPX_SOFT_BOUNCE=device ./session-suite gpu:: --skip fake_gpu:: --test-threads 1
    part one-sided-tests 120 ./session-suite gpu_one_sided::
    part one-sided-tests-device-bounce 120 env TCPX_SOFT_BOUNCE=device ./session-suite gpu_one_sided::
    # Two GPUs, if there are.
    part group-tests 120 ./session-suite gpu_group::
    part session-fault 120 ./session-suite gpu_fault:: --nocapture
}

conformance() {
    figures conformance-cuda 400 ./tcpx conformance --plugin soft --memory cuda --gpu 0 --destructive --timeout 390 --json
    # With recycled pages overwritten, so that one that comes back too early shows.
    figures conformance-cuda-device-bounce 200 env TCPX_SOFT_BOUNCE=device TCPX_SOFT_POISON=1 \
        ./tcpx conformance --plugin soft --memory cuda --gpu 0 --only entries --only sizes --only host --only queue --timeout 190 --json
}

e2e() {
    for unpack in host d2d kernel; do
        figures "perf-cuda-$unpack" 60 env RUST_LOG=info ./tcpx perf --memory cuda --gpu 0 --unpack "$unpack" --json
        figures "perf-cuda-$unpack-device-bounce" 60 env TCPX_SOFT_BOUNCE=device RUST_LOG=info \
            ./tcpx perf --memory cuda --gpu 0 --unpack "$unpack" --json
        part "transfer-$unpack" 60 ./tcpx transfer --memory cuda --gpu 0 --unpack "$unpack"
    done
    for channels in 4 8; do
        figures "perf-cuda-kernel-$channels-channels" 60 ./tcpx perf --memory cuda --gpu 0 --unpack kernel \
            --channels "$channels" --json
        figures "perf-cuda-kernel-$channels-channels-device-bounce" 60 env TCPX_SOFT_BOUNCE=device \
            ./tcpx perf --memory cuda --gpu 0 --unpack kernel --channels "$channels" --json
    done
    for memory in emulated host; do
        figures "perf-$memory" 60 ./tcpx perf --memory "$memory" --json
    done
    for op in write read; do
        figures "perf-cuda-$op" 60 ./tcpx perf --op "$op" --memory cuda --gpu 0 --json
        figures "perf-cuda-$op-latency" 60 ./tcpx perf --op "$op" --memory cuda --gpu 0 --size 4K,64K,512K,4M --latency --json
        for unpack in host d2d kernel; do
            figures "perf-cuda-$op-list-$unpack" 60 ./tcpx perf --op "$op" --memory cuda --gpu 0 --unpack "$unpack" \
                --descriptors 1000 --scattered --json
        done
    done
    if [ "$(./tcpx devices --json | grep -c pci_bus_id)" -gt 1 ]; then
        for unpack in host d2d kernel; do
            figures "perf-cuda-$unpack-two-gpus" 60 sh -c "
                ./tcpx perf server --port 24680 --gpu 1 --unpack $unpack >/dev/null &
                ./tcpx perf client 127.0.0.1:24680 --memory cuda --gpu 0 --unpack $unpack --json; code=\$?
                kill \$! 2>/dev/null; wait; exit \$code"
        done
    fi
}

bench() {
    : >"$out/bench.md"
    run_part bench 180 "$out/bench.md" ./bench
}

# sanitize NAME LIMIT_S TOOL CHECK TEST: the checked program's own output goes to NAME.txt as well.
# Failing calls of the CUDA API are not reported: the code looks at every result, and expects some
# of them.
sanitize() {
    part "$1" "$2" "$3" --tool "$4" --report-api-errors no --error-exitcode 9 ./unpack-suite --nocapture --exact \
        --test-threads 1 "$5"
}

sanitizer() {
    tried=0
    for tool in ./compute-sanitizer*/compute-sanitizer "$(command -v compute-sanitizer)" \
        "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer"; do
        [ -x "$tool" ] || continue
        tried=$((tried + 1))
        # A sanitizer may be too old or too new for the driver.
        sanitize "sanitizer-$tried" 60 "$tool" memcheck backends::many_submits_finish_in_order
        [ "$code" -eq 0 ] || continue
        failed=$((failed - tried + 1))
        for check in memcheck racecheck; do
            sanitize "$check" 200 "$tool" "$check" backends::every_case_matches_the_oracle_on_the_gpu
        done
        return
    done
    [ "$tried" -gt 0 ] || note sanitizer absent 0
}

[ $# -gt 0 ] || set -- tests conformance e2e bench sanitizer
for set in "$@"; do
    case $set in
    tests | conformance | e2e | bench | sanitizer) ;;
    *)
        echo "usage: run [tests|conformance|e2e|bench|sanitizer]..." >&2
        exit 2
        ;;
    esac
done

{
    cat ABOUT
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
    uname -sr
    echo "$(getconf _NPROCESSORS_ONLN) processors"
} | tee "$out/summary.txt"
for set in "$@"; do "$set"; done
printf '{\n  "about": "%s",\n  "failed": %s,\n  "parts": [%s\n  ]\n}\n' "$(head -n 1 ABOUT)" "$failed" "$parts" >"$out/summary.json"
tar --create --gzip --file "$out.tar.gz" --directory "$out" --exclude results.tar.gz . && mv "$out.tar.gz" "$out/results.tar.gz"
grep -h 'bounce region' "$out"/*.txt 2>/dev/null | sed 's/^.*bounce region/bounce region/' | sort | uniq -c | sort -rn | head -n 5
echo "$failed parts failed; results are in $out" | tee -a "$out/summary.txt"
[ "$failed" -eq 0 ]
