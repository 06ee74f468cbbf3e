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
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/published
rm -rf "$CARGO_TARGET_DIR/package"
cargo publish --dry-run --no-verify --workspace --allow-dirty

# Cargo would compile each package, and each once more for the packages that depend on it. Types are enough, and one workspace
# of all that was unpacked checks what they share once.
packages=$CARGO_TARGET_DIR/packages
rm -rf "$packages"
mkdir -p "$packages"
find "$CARGO_TARGET_DIR/package" -name '*.crate' -exec tar -C "$packages" -xzf {} \;
cp Cargo.lock "$packages/Cargo.lock"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*-*"]\n\n[patch.crates-io]\n'
    for folder in "$packages"/*/; do
        folder=$(basename "$folder")
        printf '%s = { path = "%s" }\n' "${folder%-*}" "$folder"
    done
    printf '\n[profile.dev.package.aws-lc-sys]\nopt-level = 3\n'
} >"$packages/Cargo.toml"
# As in this repository, so that a compiler cache has the C.
export RUSTC=$compiler CARGO_PROFILE_DEV_DEBUG=0
# One by one: together, a package would have the features that its neighbours ask for.
for folder in "$packages"/*/; do
    folder=$(basename "$folder")
    cargo check --manifest-path "$packages/Cargo.toml" -p "${folder%-*}"
done
