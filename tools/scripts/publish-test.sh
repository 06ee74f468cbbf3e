#!/usr/bin/env bash
# Builds each published crate from what its package holds, with the oldest Rust that is to be enough. Nothing is uploaded.
#
# usage: tools/scripts/publish-test.sh
#
# The build is under published in the target directory. Where the oldest Rust cannot be installed, it says so and takes the
# present one.
set -euo pipefail
. "$(dirname "$0")/usage.sh"
cd "$(dirname "$0")/../.."

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
compiler=rustc
if rustup which --toolchain "$oldest" rustc >/dev/null 2>&1 ||
    timeout 300 rustup toolchain install "$oldest" --profile minimal; then
    compiler=$(rustup which --toolchain "$oldest" rustc)
else
    echo "skipped: Rust $oldest cannot be installed here, so nothing shows that it is enough"
fi
if command -v cargo-deny >/dev/null; then
    # The advisory database is looked at by hand: it has to be downloaded, and changes without us.
    cargo deny --offline check licenses bans sources
else
    echo "skipped: there is no cargo-deny"
fi
# Cargo keeps what it unpacked for an earlier run by name and version, and would build a crate against yesterday's neighbour.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/{src,cache,index}/-*
# A package has no profile but the default, whose debug information takes a third of the time, and whose C is compiled
# otherwise than in this repository: a compiler cache would not have it.
export RUSTC=$compiler CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/published
cargo publish --dry-run --workspace --allow-dirty --config profile.dev.package.aws-lc-sys.opt-level=3
