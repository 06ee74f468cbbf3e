#!/usr/bin/env bash
# Looks for memory errors and races in the code that handles outside bytes. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
    cat <<'TEXT'
usage: tools/scripts/sanitize.sh asan|memcheck|helgrind [quick]
       tools/scripts/sanitize.sh asan pure

  asan      AddressSanitizer, which also finds leaks, over the tests of tcpx-rx, tcpx-softnet and
            tcpx-core, and over the conformance checks of the built-in software plugin. Needs the
            nightly toolchain: rustup toolchain install nightly
  memcheck  valgrind's memcheck over transfers of the software plugin, with and without helper
            threads. Needs valgrind.
  helgrind  valgrind's helgrind (races, order of locks) over the same transfers. The build has
            --cfg tcpx_helgrind, so that the locks and atomics of tcpx-softnet tell helgrind what
            they do. x86-64 only. Needs valgrind.
  quick     only transfers with helper threads
  pure      only the code that decodes outside bytes: tcpx-rx and the unit tests of tcpx-core

The exit status is 0 when nothing was found. The build is under target/sanitize, or
CARGO_TARGET_DIR/sanitize. On two processors asan takes about ten minutes with the build, and each
of the others about five; quick takes about half of that. tools/scripts/valgrind has the suppressions,
each with its reason.
TEXT
}

refuse() {
    echo "sanitize.sh: $*" >&2
    exit 2
}

needs_valgrind() {
    command -v valgrind >/dev/null || refuse "valgrind is not installed (Debian: apt-get install valgrind)"
    # Its interception of malloc and of threads needs the symbols of the dynamic linker.
    valgrind --tool="$1" -q true 2>/dev/null ||
        refuse "valgrind --tool=$1 cannot run a program here (Debian: apt-get install libc6-dbg)"
}

# Builds the tests of tcpx-softnet and prints their program's path.
test_program() {
    cargo test --quiet --no-run --message-format json-render-diagnostics -p tcpx-softnet --test suite |
        sed -n 's/.*"kind":\["test"\].*"executable":"\([^"]*\)".*/\1/p'
}

# Runs the tests under valgrind with these arguments, each in the process that it asks for, and one at
# a time: several would starve each other.
under_valgrind() {
    local program
    program=$(test_program)
    [[ -x $program ]] || refuse "the tests were not built: $program"
    valgrind "$@" --quiet --trace-children=yes --error-exitcode=9 \
        "$program" "${tests[@]}" --test-threads=1
}

asan() {
    rustup run nightly cargo --version >/dev/null 2>&1 ||
        refuse "there is no nightly toolchain (rustup toolchain install nightly)"
    local host
    host=$(rustup run nightly rustc --version --verbose | sed -n 's/^host: //p')
    export RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=address"
    export RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -Zsanitizer=address"
    # With a target named, build scripts and procedural macros stay as they are.
    local run=(rustup run nightly cargo test --target "$host")
    # Tests ask for more memory than there can be, and want to be refused.
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}allocator_may_return_null=1"
    # They leave behind what a GPU might still write to: a leak on purpose.
    local but_leaks=(-- --skip lingering::what_never_ends_is_left_behind_with_the_session
        --skip workers::tests::after_a_stall_nothing_is_dropped)
    # Their threads are coroutines, whose stacks it does not know.
    local but_orders=(--skip comm::interleavings --skip lanes::interleavings)
    if [[ $pure ]]; then
        # In one command, so that what both depend on is built once. Optimised, it would take longer to build than it saves.
        local package plain=()
        for package in tcpx-protocol tcpx-softnet tcpx-devmem tcpx-unpack tcpx-testkit; do
            plain+=(--config "profile.dev.package.$package.opt-level=0")
        done
        "${run[@]}" "${plain[@]}" -p tcpx-rx -p tcpx-core --lib --test suite "${but_leaks[@]}"
    elif [[ $quick ]]; then
        "${run[@]}" -p tcpx-softnet --test suite "${tests[@]}"
    else
        "${run[@]}" -p tcpx-rx -p tcpx-softnet -p tcpx-core "${but_leaks[@]}" "${but_orders[@]}"
        "${run[@]}" -p tcpx-softnet --test suite -- --ignored
        # Its own unit tests leave the memory of agents behind, which is never freed.
        "${run[@]}" -p tcpx-conformance --test suite softnet -- --include-ignored
    fi
}

memcheck() {
    needs_valgrind memcheck
    under_valgrind --tool=memcheck --suppressions=tools/scripts/valgrind/memcheck.supp \
        --leak-check=full --errors-for-leak-kinds=definite,indirect,possible
}

helgrind() {
    needs_valgrind helgrind
    [[ $(uname -m) == x86_64 ]] || refuse "helgrind runs are written for x86-64, not for $(uname -m)"
    export RUSTFLAGS="${RUSTFLAGS:-} --cfg tcpx_helgrind"
    under_valgrind --tool=helgrind --suppressions=tools/scripts/valgrind/helgrind.supp
}

quick="" pure="" tests=(helpers:: transfer::)
case "${1-} ${2-}" in
    *" ") ;;
    *" quick") quick=yes tests=(helpers::) ;;
    "asan pure") pure=yes ;;
    *) usage >&2; exit 2 ;;
esac
target="${CARGO_TARGET_DIR:-target}/sanitize"
case "${1-}" in
    asan | memcheck | helgrind) export CARGO_TARGET_DIR="$target/$1"; "$1" ;;
    -h | --help) usage; exit ;;
    *) usage >&2; exit 2 ;;
esac
echo "sanitize.sh $1: nothing found"
