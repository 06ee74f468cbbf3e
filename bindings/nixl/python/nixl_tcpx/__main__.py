"""python -m nixl_tcpx install | uninstall | check | verify | path"""

import argparse
import sys

from . import install, plugin_folder, uninstall
from .check import check
from .places import BACKEND, STAND_INS, Unusable
from .verify_options import add_arguments

USAGE = 64


class Arguments(argparse.ArgumentParser):
    """Its errors are one line, and the usage."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"error: {message}\n")


def arguments(words):
    """What is asked for."""
    parser = Arguments(prog="python -m nixl_tcpx", description="The TCPX backend for NIXL.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Arguments)
    for command, about in (
        ("install", "put the plugin where NIXL looks for backends"),
        ("uninstall", "remove it, and put NIXL's own files back"),
    ):
        one = commands.add_parser(command, help=about, description=about)
        one.add_argument("--as", dest="name", choices=(BACKEND, *STAND_INS),
                         help="take the place of this backend, for programs that choose no other")
        one.add_argument("--into", metavar="FOLDER",
                         help="a folder of yours, for NIXL_PLUGIN_DIR, instead of NIXL's own")
    commands.add_parser("check", help="say what stands where, and whether it works")
    about = "run conformance checks on any backend of NIXL, in processes of their own; needs numpy"
    verify = commands.add_parser("verify", help=about, description=about)
    add_arguments(verify)
    commands.add_parser("path", help="print the folder of the plugin, for NIXL_PLUGIN_DIR")
    return parser.parse_args(words)


def run_checks(asked):
    """Runs conformance checks, which need what the other commands do not."""
    try:
        from .verify import verify
    except ImportError as error:
        raise Unusable(f"verify cannot run: {error}") from error
    return verify(asked)


def main(words):
    """Does what is asked for, and returns the exit status."""
    asked = arguments(words)
    try:
        if asked.command == "path":
            print(plugin_folder())
        elif asked.command == "check":
            for line in check():
                print(line, flush=True)
        elif asked.command == "verify":
            return run_checks(asked)
        elif asked.command == "install":
            print("\n".join(install(asked.name or BACKEND, asked.into)))
        else:
            files = uninstall(asked.name, asked.into)
            if not files:
                raise Unusable("no NIXL was found, or NIXL has no file of this package")
            print("\n".join(files))
    except Unusable as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
