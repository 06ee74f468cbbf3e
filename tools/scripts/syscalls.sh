#!/usr/bin/env bash
# Counts the system calls that a message costs, both ends together, with strace: of round trips with
# `tcpx perf`, those of a long run less those of a short one, so that nothing of beginning and end is
# in it. A process that is traced is slow, so calls that only wait are more than they would be.
#
# usage: tools/scripts/syscalls.sh [SIZE...]      (default: 64 4K 64K 512K 4M)
set -euo pipefail
. "$(dirname "$0")/usage.sh"
short=100 long=600

if ! strace -f -qq -o /dev/null true 2>/dev/null; then
  echo "syscalls.sh: skipped: strace is missing, or may not trace here" >&2
  exit 0
fi
[ $# -gt 0 ] || set -- 64 4K 64K 512K 4M

cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p tcpx-cli
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Writes "NAME CALLS" lines for this many round trips.
count() {
  RUST_LOG=error strace -f -c -qq -U name,calls -o "$out/summary" \
    "$target/dist/tcpx" perf --latency --memory "$1" --size "$2" --warmup 0 --iters "$3" >/dev/null
  awk 'NF == 2 && $2 ~ /^[0-9]+$/ && $1 != "total"' "$out/summary"
}

printf '%-8s %-9s %8s  %s\n' size memory calls 'of them'
for memory in host emulated; do
  for size in "$@"; do
    count "$memory" "$size" "$short" >"$out/short"
    count "$memory" "$size" "$long" >"$out/long"
    awk -v size="$size" -v memory="$memory" -v messages=$((2 * (long - short))) '
      FNR == NR { before[$1] = $2; next }
      { calls = ($2 - before[$1]) / messages; total += calls
        if (calls >= 0.05) print calls, $1 >"/dev/stderr" }
      END { printf "%-8s %-9s %8.1f  ", size, memory, total }
    ' "$out/short" "$out/long" 2>"$out/names"
    sort -rn "$out/names" | awk '{ printf "%s%s %.1f", (NR > 1 ? ", " : ""), $2, $1 } END { print "" }'
  done
done
