"""What the plugin's file has and needs, read from it: file.py FILE [GLIBC]

FILE is libplugin_TCPX.so, or a wheel with it, whose name says which glibc will do. GLIBC, as 2.28,
is the latest one that may be needed, with the libstdc++ of its time.
"""

import os
import re
import struct
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from nixl_tcpx.elf import DYNAMIC_SYMBOLS, exported_text, sections, symbols as read_symbols, text

NEEDS, EXPORTS = 0x6FFFFFFE, {"nixl_plugin_init", "nixl_plugin_fini", "tcpx_nixl_version"}
# What is allowed to wheels for glibc 2.28, beside it.
OF_2_28 = {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}


def needed_versions(data, tables):
    """Versions of symbols that it takes from libraries."""
    for kind, _, offset, _, link in tables:
        while kind == NEEDS:
            _, count, _, first, further = struct.unpack_from("<HHIII", data, offset)
            at = offset + first
            for _ in range(count):
                _, _, _, name, later = struct.unpack_from("<IHHII", data, at)
                yield text(data, tables[link][2] + name)
                at += later
            if not further:
                break
            offset += further


def numbers(version):
    return tuple(int(number) for number in version.split("."))


def examine(data, glibc):
    tables = list(sections(data))
    symbols = list(read_symbols(data, tables, DYNAMIC_SYMBOLS))
    exported = {name for name, section, _, _ in symbols if section and name}
    assert EXPORTS <= exported, exported
    others = {name for name in exported - EXPORTS if not re.match(r"TCPX|nixl_plugin", name)}
    assert not others, f"it exports {others}"
    foreign = [name for name, section, _, _ in symbols
               if not section and re.search(r"nixl|absl|tcpx", name)]
    assert not foreign, f"it needs {foreign}"
    version = exported_text(data, "tcpx_nixl_version")
    assert re.fullmatch(r"\d+\.\d+\.\d+", version), version
    newest = {}
    for name in needed_versions(data, tables):
        kind, _, number = name.partition("_")
        if re.fullmatch(r"[\d.]+", number):
            newest[kind] = max(newest.get(kind, (0,)), numbers(number))
    limits = {"GLIBC": numbers(glibc), **OF_2_28} if glibc == "2.28" else {}
    late = {kind: newest[kind] for kind in newest.keys() & limits if newest[kind] > limits[kind]}
    assert not late, f"later than glibc {glibc} and its time: {late}"
    return version, newest


def main(path, glibc=None):
    if path.endswith(".whl"):
        glibc = re.search(r"manylinux_(\d+_\d+)_", path)[1].replace("_", ".")
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as wheel:
            main(wheel.extract("nixl_tcpx/libplugin_TCPX.so", folder), glibc)
        return
    with open(path, "rb") as file:
        version, newest = examine(file.read(), glibc)
    shown = ", ".join(f"{kind} {'.'.join(map(str, newest[kind]))}" for kind in sorted(newest))
    print(f"ok {os.path.basename(path)}: tcpx {version} needs {shown}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
