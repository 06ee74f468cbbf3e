#!/usr/bin/env bash
# Prints the backend for NIXL beside the one for UCX that NIXL's wheel has, over TCP: what a program
# of NIXL sees, between two processes of this machine, over host memory. WRITE and READ of 4 KiB to
# 64 MiB one at a time and 8 outstanding, notifications there and back, and requests of 1,000
# descriptors of 4 KiB. Medians of rounds in which the two take turns; each turn has fresh bytes,
# which are verified. About 20 s a round, on a machine that does nothing else, or the figures mean
# nothing.
#
# usage: tools/scripts/compare-nixl.sh [--busy N] [--encrypt] FOLDER [ROUNDS] [ROW...]
#   N       processes that compute meanwhile (default: none)
#   --encrypt
#           this backend encrypts (TCPX_ENCRYPTION=require); UCX goes on in clear
#   FOLDER  has libplugin_TCPX.so, from cargo xtask nixl --out FOLDER
#   ROUNDS  how often everything is measured (default: 5)
#   ROW     only rows that begin so, such as "READ" or "WRITE 4 KiB" (default: all)
set -euo pipefail
. "$(dirname "$0")/usage.sh"

busy=0
if [[ ${1:-} == --busy ]]; then
    busy=${2:?how many processes compute meanwhile}
    shift 2
fi
encryption=
if [[ ${1:-} == --encrypt ]]; then
    encryption=require
    shift
fi
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
exec "$python" tools/scripts/compare_nixl.py "$folder" "$rounds" "$busy" "$@"
