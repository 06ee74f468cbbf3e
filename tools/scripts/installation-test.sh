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
TCPX_TEST_PREFIX=$prefix cargo test -p tcpx-capi --test suite
