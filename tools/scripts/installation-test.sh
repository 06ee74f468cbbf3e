#!/usr/bin/env bash
# Lays down an installation of the C and C++ library, and runs the C and C++ programs of the tests against it.
#
# usage: tools/scripts/installation-test.sh [PREFIX]      (default: installation in the target directory)
set -euo pipefail
. "$(dirname "$0")/usage.sh"
cd "$(dirname "$0")/../.."
. tools/scripts/glibc.sh

prefix=$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/installation}")
cargo xtask install --profile dev --prefix "$prefix" "${glibc[@]}"
# The program of the tests' own build: for the crate alone cargo would build most of it again.
program=$(cargo test --workspace --no-run --message-format=json-render-diagnostics --test suite |
    tools/scripts/test_programs.py | awk '$1 == "tcpx-capi" { print $3 }')
TCPX_TEST_PREFIX=$prefix "$program"
