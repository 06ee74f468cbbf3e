#!/usr/bin/env bash
# Counts the instructions that tcpx-core spends on one chunk and on one small message, for both ends
# together, over a plugin that does nothing; and on one message on the control link, in clear and
# encrypted. The count hardly depends on the machine or its load, so two versions can be compared.
#
# usage: tools/scripts/instructions.sh [OUT]
#   OUT   folder for callgrind's files, which callgrind_annotate reads (default: a temporary folder,
#         removed at the end)
set -euo pipefail
. "$(dirname "$0")/usage.sh"

for tool in valgrind cargo; do
  if ! command -v "$tool" >/dev/null; then
    echo "instructions.sh: $tool is not installed" >&2
    exit 1
  fi
done
if [ $# -gt 0 ]; then
  out=$1
  mkdir -p "$out"
else
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
out=$(cd "$out" && pwd)

cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p tcpx-tests --example instructions
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

# count WAY KIND NUMBER: one line.
count() {
  local log=$out/$1-$2.log total
  valgrind --tool=callgrind --toggle-collect='*instructions::measured*' --callgrind-out-file="$out/$1-$2.callgrind" \
    "$target/dist/examples/instructions" "$1" "$2" "$3" 2>"$log" || {
    cat "$log" >&2
    exit 1
  }
  total=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$log")
  if [ "${total:-0}" -eq 0 ]; then
    echo "instructions.sh: nothing was counted, see $log" >&2
    exit 1
  fi
  printf '%-14s %-10s %s\n' "$1" "$2" $((total / $3))
}

printf '%-14s %-10s %s\n' way what 'instructions each'
for memory in host device; do
  # A number: chunks that travel on this many channels, where there are two otherwise.
  for kind in chunks 8 16 messages; do count "$memory" "$kind" 10000; done
done
for way in link encrypted; do
  for bytes in 64 65536; do count "$way" "$bytes" 1000; done
done
