"""What an ELF file of 64 bits has in it. It is read, and not loaded.

A function that reads tables takes the file's bytes, and raises `Malformed` where they are no such
file, or end before what they speak of.
"""

import re
import struct

SYMBOLS, DYNAMIC_SYMBOLS, RELOCATIONS = 2, 11, 4


class Malformed(Exception):
    """A file that is no library, or is damaged."""


def read(path):
    """The bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


def is_library(data):
    """Whether a file begins as one."""
    return len(data) >= 64 and data[:5] == b"\x7fELF\2"


def is_cut_off(data):
    """Whether a library ends before its contents. The loader ends the process over such a file."""
    if not is_library(data):
        return False
    (first,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    if first + size * count > len(data):
        return True
    parts = (struct.unpack_from("<IIQQQQ", data, first + size * i) for i in range(count))
    return any(offset + length > len(data) for _, _, offset, _, _, length in parts)


def sections(data):
    """(type, address, offset, size, link) of each."""
    offset, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    for i in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size)
        yield fields[1], fields[3], fields[4], fields[5], fields[6]


def text(data, at):
    """The text that begins there."""
    return data[at : data.index(b"\0", at)].decode()


def symbols(data, tables, wanted):
    """(name, section, address, size) of the tables of a kind, in their order; section 0 is none."""
    for kind, _, offset, size, link in tables:
        if kind == wanted:
            for at in range(offset, offset + size, 24):
                name, _, _, section, address, count = struct.unpack_from("<IBBHQQ", data, at)
                yield text(data, tables[link][2] + name), section, address, count


def exported_text(data, symbol):
    """The text at a symbol that a library exports, or None."""
    found = exported(data).get(symbol)
    if found is None:
        return None
    address, section = found
    try:
        _, start, offset, _, _ = list(sections(data))[section]
        return text(data, offset + address - start)
    except (struct.error, IndexError, ValueError) as error:
        raise Malformed(str(error)) from error


def exported(data):
    """(address, section) of all that a library exports, by name."""
    if not is_library(data):
        raise Malformed("it is no library")
    try:
        found = list(symbols(data, list(sections(data)), DYNAMIC_SYMBOLS))
    except (struct.error, IndexError, ValueError) as error:
        raise Malformed(str(error)) from error
    return {name: (address, section) for name, section, address, _ in found if section and name}


def virtual_functions(data, engine):
    """Names of the functions of a class, by slot; none where the file does not name the class.
    Equal functions may be one with several names."""
    try:
        return _virtual_functions(data, engine)
    except (struct.error, IndexError, ValueError) as error:
        raise Malformed(str(error)) from error


def _virtual_functions(data, engine):
    tables = list(sections(data))
    dynamic = list(symbols(data, tables, DYNAMIC_SYMBOLS))
    defined = [each for each in (*symbols(data, tables, SYMBOLS), *dynamic) if each[1]]
    table = [(address, size) for name, _, address, size in defined if name == "_ZTV" + engine]
    if not table:
        return []
    first, size = table[0][0] + 16, table[0][1] - 16
    named = {}
    for name, _, address, _ in defined:
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
