#!/usr/bin/env bash
# Checks the software plugin against every rule of the plugin contract, built in and as a file, in release builds.
#
# usage: tools/scripts/conformance-test.sh
set -euo pipefail
. "$(dirname "$0")/usage.sh"
cd "$(dirname "$0")/../.."

cargo build --release -p tcpx-cli
tcpx=${CARGO_TARGET_DIR:-target}/release/tcpx
for plugin in soft "$(tools/scripts/build_softnet_plugin.sh release)"; do
    # On a busy machine the checks need more than their usual time.
    "$tcpx" conformance --plugin "$plugin" --destructive --timeout 900
done
