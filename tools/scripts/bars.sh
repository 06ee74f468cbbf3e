#!/usr/bin/env bash
# Measures every row of the table of bars and prints it: ours, blocking sockets, UCX over
# TCP, and whether the bar is met. All of a row is measured in turns, medians of the rounds count.
# About twenty minutes; on a machine that does nothing else, or the figures are wrong.
#
# usage: tools/scripts/bars.sh [ROUNDS] [GROUP...]
#   ROUNDS  how often everything is measured (default: 5)
#   GROUP   only these rows: trips, go, link, stream, one-sided, lists, notify, messages, idle, busy,
#           descriptors, locks, quiet (default: all of them)
#
# NIXL's wheel, which has UCX in it, is installed once below the target folder. Without network
# access, or on a machine that it does not know, the columns of UCX stay empty.
set -euo pipefail
. "$(dirname "$0")/usage.sh"

cd "$(dirname "$0")/../.."
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
venv=$target/nixl
wheel=1.5.1
if ! [ -e "$venv/.installed-$wheel" ]; then
  rm -rf "$venv"
  # Its other dependencies are several GB and nothing that a CPU needs.
  if python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --no-deps "nixl-cu12==$wheel" "nixl==$wheel" &&
    "$venv/bin/pip" install --quiet --no-deps numpy; then
    touch "$venv/.installed-$wheel"
  else
    echo "bars.sh: NIXL's wheel could not be installed; nothing is compared with UCX" >&2
  fi
fi
cargo build --quiet --profile dist -p tcpx-cli
python3 tools/scripts/bars.py "$target/dist/tcpx" "$venv" "$@"
