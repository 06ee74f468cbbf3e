# For scripts of this folder that build what is handed out: `. "$(dirname "$0")/glibc.sh"` sets `glibc` to the flags that
# link for an older glibc than this machine's, by zig, or to nothing where zig cannot be had. 100 MB to download and 400 MB
# on disk, which stay for the next time.
zig_folder=${CARGO_TARGET_DIR:-$PWD/target}/zig
export PYTHONPATH="$zig_folder${PYTHONPATH:+:$PYTHONPATH}"
glibc=()
if python3 -m ziglang version >/dev/null 2>&1 ||
    python3 -m pip install -q --retries 1 --timeout 10 --target "$zig_folder" 'ziglang==0.17.*' >/dev/null 2>&1; then
    # shellcheck disable=SC2034 # the script that reads this uses it
    glibc=(--glibc 2.28)
else
    echo "skipped: zig cannot be installed, so nothing is linked for an older glibc"
fi
