#!/usr/bin/env bash
# Prints the backend for NIXL beside the one for UCX that NIXL's wheel has, over TCP: what a program
# of NIXL sees, between two processes of this machine. WRITE and READ of 4 KiB to
# 64 MiB one at a time and 8 outstanding, notifications there and back, and requests of 1,000
# descriptors of 4 KiB. Medians of rounds in which the two take turns; each turn has fresh bytes,
# which are verified. About 20 s a round, on a machine that does nothing else, or the figures mean
# nothing.
#
# usage: tools/scripts/compare-nixl.sh [--busy N] [--encrypt] [--vram] [--ucx NAME=VALUE]... [--kv FILE] FOLDER [ROUNDS]
#            [ROW...]
#   N       processes that compute meanwhile (default: none)
#   --encrypt
#           this backend encrypts (TCPX_ENCRYPTION=require); UCX goes on in clear
#   --vram  memory of GPU 0 instead of host memory. The processes share the GPU, so they take turns on it
#   --ucx NAME=VALUE
#           a setting of UCX, such as UCX_TCP_RX_SEG_SIZE=1M
#   --kv FILE
#           KV caches of requests instead: READ, and WRITE with a notification, 1, 4, 16 and 64
#           under way, where memory allows it. p50 and p99 of a request, of 120 or more over the
#           rounds, to the sight of its end at the end that waits for it; GB/s; and processor seconds
#           of both ends for a GB, which poll all the time, as UCX wants it. FILE is what
#           tcpx perf --kv MODEL --json has printed, which says of how many ranges of how many bytes
#           a request is
#   FOLDER  has libplugin_TCPX.so, from cargo xtask nixl --out FOLDER
#   ROUNDS  how often everything is measured (default: 5)
#   ROW     only rows that begin so, such as "READ" or "WRITE 4 KiB" (default: all)
set -euo pipefail
. "$(dirname "$0")/usage.sh"

busy=0 encryption= kv= memory=DRAM tuned=
while [[ ${1:-} == --* ]]; do
    case $1 in
    --busy)
        busy=${2:?how many processes compute meanwhile}
        shift
        ;;
    --encrypt) encryption=require ;;
    --vram) memory=VRAM ;;
    --ucx)
        if [[ ${2:-} != UCX_*=* ]]; then
            echo "--ucx ${2:-}: a setting of UCX is UCX_NAME=VALUE" >&2
            exit 2
        fi
        tuned+=" $2"
        shift
        ;;
    --kv)
        kv=$(realpath "${2:?the file of tcpx perf --kv MODEL --json}")
        shift
        ;;
    *) break ;;
    esac
    shift
done
for word in "$@"; do
    if [[ $word == --* ]]; then
        echo "$word: options come before FOLDER; see --help" >&2
        exit 2
    fi
done
folder=$(realpath "${1:?the folder of libplugin_TCPX.so; see --help}")
shift
rounds=${1:-5}
shift || true
cd "$(dirname "$0")/../.."
python=${NIXL_PYTHON:-$(tools/scripts/nixl-test.sh install)}
# Nothing of the caller's environment chooses another plugin, settings or a GPU.
for variable in "${!TCPX_@}" "${!UCX_@}"; do unset "$variable"; done
if [[ $encryption ]]; then
    export TCPX_ENCRYPTION=$encryption
fi
exec "$python" tools/scripts/compare_nixl.py "$folder" "$rounds" "$busy" "$kv" "$memory" "$tuned" "$@"
