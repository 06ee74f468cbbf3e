"""Compares the order of our virtual functions with that of the wheel's own UCX plugin.

NIXL calls a backend by the numbers of its virtual functions, and says nothing when they have
changed. Both orders are read from the binaries: PLUGIN_DIR/libplugin_TCPX.so, which must not be
stripped of its symbol table, and the wheel's libplugin_UCX.so.
"""

import glob
import os
import re
import struct
import sys
from importlib.metadata import version

SYMBOLS, DYNAMIC_SYMBOLS, RELOCATIONS = 2, 11, 4
# Those that NIXL calls, with the two that destroy an engine.
SLOTS = 27


def sections(data):
    """(type, address, offset, size, link) of each."""
    offset, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    for i in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size)
        yield fields[1], fields[3], fields[4], fields[5], fields[6]


def symbols(data, tables):
    """(name, address, size) of those that are defined, and the names of a table in their order."""
    defined, dynamic = [], []
    for kind, _, offset, size, link in tables:
        if kind not in (SYMBOLS, DYNAMIC_SYMBOLS):
            continue
        texts = tables[link][2]
        for at in range(offset, offset + size, 24):
            name, _, _, section, address, count = struct.unpack_from("<IBBHQQ", data, at)
            end = data.index(b"\0", texts + name)
            text = data[texts + name : end].decode()
            if kind == DYNAMIC_SYMBOLS:
                dynamic.append((text, address))
            if section:
                defined.append((text, address, count))
    return defined, dynamic


def slots(path, engine):
    """Names of the functions of a class, by slot. Equal ones may be one with several names."""
    with open(path, "rb") as file:
        data = file.read()
    tables = list(sections(data))
    defined, dynamic = symbols(data, tables)
    table = [(address, size) for name, address, size in defined if name == "_ZTV" + engine]
    assert table, f"{path} has no symbols, or no class {engine}"
    first, size = table[0][0] + 16, table[0][1] - 16
    named = {}
    for name, address, _ in defined:
        named.setdefault(address, set()).add(function(name))
    found = {}
    for kind, _, offset, length, _ in tables:
        if kind != RELOCATIONS:
            continue
        for at in range(offset, offset + length, 24):
            place, info, addend = struct.unpack_from("<QQq", data, at)
            if first <= place < first + size:
                symbol = info >> 32
                names = {function(dynamic[symbol][0])} if symbol else named.get(addend, set())
                found[(place - first) // 8] = names
    return [found.get(i, set()) for i in range(size // 8)]


def function(mangled):
    """The last name of a mangled one, and whether it takes memory of peers."""
    rest = re.sub(r"^_ZN?K?", "", mangled)
    name = mangled
    while match := re.match(r"(\d+)", rest):
        begin, count = len(match[1]), int(match[1])
        name, rest = rest[begin : begin + count], rest[begin + count :]
    if re.match(r"D[012]", rest):
        return "destructor"
    return name + (" of peers" if "nixlRemoteMetaDesc" in rest else "")


def main():
    import nixl_cu12 as wheel

    folder = os.path.join(os.path.dirname(wheel.__file__), "..", ".nixl_cu12.mesonpy.libs")
    (theirs,) = glob.glob(os.path.join(folder, "plugins", "libplugin_UCX.so"))
    ours = os.path.join(os.environ["NIXL_PLUGIN_DIR"], "libplugin_TCPX.so")
    expected = slots(theirs, "13nixlUcxEngine")
    have = slots(ours, "N9tcpx_nixl6EngineE")
    assert len(have) == SLOTS and len(expected) >= SLOTS, (len(have), len(expected))
    for i, (mine, its) in enumerate(zip(have, expected)):
        assert mine & its, f"function {i} is {mine} here and {its} in NIXL: see nixl_abi.hpp"
    print(f"ok vtable: {SLOTS} functions as in the UCX plugin of NIXL {version('nixl')}")


if __name__ == "__main__":
    sys.exit(main())
