"""The options of run.sh, which runs this first: a wrong one ends it before anything is installed."""

import argparse
from pathlib import Path

# By name: the backend of NIXL, and the environment that both servers have.
TRANSPORTS = {
    "tcpx": ("TCPX", {"TCPX_LISTEN": "127.0.0.1:0"}),
    "ucx": ("UCX", {"UCX_TLS": "tcp"}),
    "tcpx-encrypted": ("TCPX", {"TCPX_LISTEN": "127.0.0.1:0", "TCPX_ENCRYPTION": "require"}),
}


def whole(least):
    """Returns what reads a number that is no less than another."""

    def read(text):
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return read


def options():
    """Returns the options."""
    parser = argparse.ArgumentParser(prog="examples/vllm/run.sh", add_help=False, epilog="--help says what they do")
    add = parser.add_argument
    add("--plugin", type=Path)
    add("--work", type=Path, required=True, help=argparse.SUPPRESS)
    add("--transports", nargs="+", default=list(TRANSPORTS), choices=list(TRANSPORTS), metavar="NAME")
    add("--prompts", type=whole(1), default=24)
    add("--requests", type=whole(1), default=500)
    add("--kills", type=whole(0), default=3)
    add("--stops", type=whole(0), default=1)
    add("--killed", choices=list(TRANSPORTS))
    add("--deadline", type=whole(1), default=60)
    asked = parser.parse_args()
    asked.killed = asked.killed or asked.transports[0]
    if asked.killed not in asked.transports:
        parser.error(f"--killed {asked.killed} is none of --transports")
    return asked


if __name__ == "__main__":
    options()
