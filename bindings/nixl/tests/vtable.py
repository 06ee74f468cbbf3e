"""Compares the order of our virtual functions with that of the wheel's own plugins.

NIXL calls a backend by the numbers of its virtual functions, and says nothing when they have
changed. All orders are read from the binaries: PLUGIN_DIR/libplugin_TCPX.so, which must not be
stripped of its symbol table, and the wheel's own. What installation compares is what this
plugin has.
"""

import os
import sys
from importlib.metadata import version

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from nixl_tcpx import PLUGIN, elf, interface, nixl_folders


def functions(path, engine):
    """Names of the functions of a class, by slot."""
    found = elf.virtual_functions(elf.read(path), engine)
    assert found, f"{path} has no symbols, or no class {engine}"
    return found


def main():
    have = functions(os.path.join(os.environ["NIXL_PLUGIN_DIR"], PLUGIN), "N9tcpx_nixl6EngineE")
    assert len(have) == len(interface.FUNCTIONS), have
    for i, (names, listed) in enumerate(zip(have, interface.FUNCTIONS)):
        assert listed in names, f"function {i} is {names} here and {listed} in interface.py"
    folder = nixl_folders()["nixl_cu12"]
    expected = functions(os.path.join(folder, "libplugin_UCX.so"), interface.ENGINES["UCX"])
    assert len(expected) >= len(have), (len(have), len(expected))
    for i, (mine, its) in enumerate(zip(have, expected)):
        assert mine & its, f"function {i} is {mine} here and {its} in NIXL: see nixl_abi.hpp"
    for distribution, folder in nixl_folders().items():
        interface.require(distribution, folder)
    print(f"ok vtable: {len(have)} functions as in the UCX plugin of NIXL {version('nixl')}")


if __name__ == "__main__":
    sys.exit(main())
