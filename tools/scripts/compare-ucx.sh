#!/usr/bin/env bash
# Prints tcpx beside UCX over TCP, as NIXL drives it, and beside blocking sockets: half of a round
# trip of 4 KiB to 4 MiB, and a stream of 64 MiB messages, over host and emulated device memory. In
# turns, medians of the rounds. Installs NIXL's wheel below the target folder.
#
# usage: tools/scripts/compare-ucx.sh [ROUNDS]      (default: 5)
set -euo pipefail
. "$(dirname "$0")/usage.sh"

exec "$(dirname "$0")/bars.sh" "${1:-5}" trips stream
