"""python -m nixl_tcpx install | uninstall | path | check"""

import sys

from . import install, plugin_folder, uninstall
from .check import Unusable, check


def main(words):
    """Does what is asked for, and returns the exit status."""
    if words == ["path"]:
        print(plugin_folder())
        return 0
    if words == ["check"]:
        try:
            print("\n".join(check()))
        except Unusable as why:
            print(f"error: {why}", file=sys.stderr)
            return 1
        return 0
    if words not in (["install"], ["uninstall"]):
        print(f"usage: {__doc__}", file=sys.stderr)
        return 64
    files = install() if words == ["install"] else uninstall()
    print("\n".join(files))
    if not files:
        print("error: no NIXL was found, or NIXL has no file of this package", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
