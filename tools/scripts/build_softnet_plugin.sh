#!/bin/sh
# Builds the software plugin and puts it where loaders look for it by name:
#   <target>/<profile>/libnccl-net-tcpx-soft.so
# usage: build_softnet_plugin.sh [dist|release|dev]
#   <target> is CARGO_TARGET_DIR, if that is set.
set -eu

profile=${1:-dist}
case $profile in
dist | release) folder=$profile ;;
dev | debug) profile=dev folder=debug ;;
*)
    echo "usage: $0 [dist|release|dev]" >&2
    exit 2
    ;;
esac

root=$(cd "$(dirname "$0")/../.." && pwd)
# The command has no library. It is named for the features of what both use, which is then built once.
cargo build --quiet --manifest-path "$root/Cargo.toml" -p tcpx-softnet-plugin -p tcpx-cli --lib --profile "$profile"
built=${CARGO_TARGET_DIR:-$root/target}/$folder
# Doubles for tests build the plugin with hooks by which they make it misbehave. Here there are none.
if [ "$folder" != debug ] && command -v nm >/dev/null &&
    nm -C "$built/libnccl_net_tcpx_soft.so" | grep -E 'tcpx_softnet(_faults|::hooks)::' >&2; then
    echo "$0: the library has hooks for tests" >&2
    exit 1
fi
# A new file under the final name, so that a process that has the old one mapped keeps it whole.
cp "$built/libnccl_net_tcpx_soft.so" "$built/libnccl-net-tcpx-soft.so.new"
mv "$built/libnccl-net-tcpx-soft.so.new" "$built/libnccl-net-tcpx-soft.so"
echo "$built/libnccl-net-tcpx-soft.so"
