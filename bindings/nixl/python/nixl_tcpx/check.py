"""Whether an agent of the installed NIXL reaches itself through the TCPX backend."""

import ctypes
import os
import struct
import time
from importlib.metadata import PackageNotFoundError, version

from . import PLUGIN, nixl_folders

# With the interface of 1.0 it changed without another number.
OLDEST = (1, 0)
DEADLINE = 30


class Unusable(Exception):
    """Why the backend does not work here."""


def numbers(text):
    """The first two numbers of a version."""
    return tuple(int(part) for part in text.split(".")[:2])


def is_cut_off(path):
    """Whether a library ends before its contents. The loader ends the process over such a file."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 64 or data[:5] != b"\x7fELF\2":
        return False
    (first,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    if first + size * count > len(data):
        return True
    parts = (struct.unpack_from("<IIQQQQ", data, first + size * i) for i in range(count))
    return any(offset + length > len(data) for _, _, offset, _, _, length in parts)


def plugin_version(path):
    """Which version of tcpx a plugin file is. The loader says what it lacks, as NIXL does not."""
    if is_cut_off(path):
        raise Unusable(f"the plugin cannot be used: {path} is cut off")
    try:
        library = ctypes.CDLL(path)
        text = ctypes.c_char.in_dll(library, "tcpx_nixl_version")
    except (OSError, ValueError) as error:
        raise Unusable(f"the plugin cannot be used: {error}") from error
    return ctypes.string_at(ctypes.addressof(text)).decode()


def plugins():
    """Versions of the plugin files that NIXL may load, by path."""
    named = os.environ.get("NIXL_PLUGIN_DIR")
    folders = [named] if named else nixl_folders().values()
    paths = [os.path.join(folder, PLUGIN) for folder in folders]
    found = {path: plugin_version(path) for path in paths if os.path.exists(path)}
    try:
        own = version("nixl-tcpx")
    except PackageNotFoundError:
        return found
    for path, other in found.items():
        if other != own:
            raise Unusable(f"{path} is {other}, and this package {own}: run install again")
    return found


def check():
    """Moves bytes between two areas of an agent. Returns what was seen, line by line."""
    try:
        installed = version("nixl")
        from nixl._api import nixl_agent, nixl_agent_config
    except Exception as error:  # pylint: disable=broad-except
        raise Unusable(f"NIXL is not installed, or cannot be imported: {error}") from error
    if numbers(installed) < OLDEST:
        raise Unusable(f"NIXL {installed} has another interface; 1.0 and later will do")
    files = plugins()
    agent = nixl_agent("nixl_tcpx check", nixl_agent_config(backends=[]))
    names = agent.get_plugin_list()
    if "TCPX" not in names:
        raise Unusable(f"NIXL finds no TCPX, only {', '.join(names)}: run install first")
    try:
        agent.create_backend("TCPX")
    except Exception as error:  # pylint: disable=broad-except
        raise Unusable(f"the backend cannot be made: {error}; the lines above say why") from error
    took = {operation: transfer(agent, operation) for operation in ("WRITE", "READ")}
    lines = [f"NIXL {installed} has {', '.join(sorted(names))}"]
    lines += [f"TCPX {number} is {path}" for path, number in files.items()]
    lines += [f"{name} of 1 MiB with a notification: {ms:.1f} ms" for name, ms in took.items()]
    return lines


def transfer(agent, operation):
    """One to itself. Returns the milliseconds that it took."""
    count = 1 << 20
    source, target = (ctypes.create_string_buffer(count) for _ in range(2))
    source.raw = bytes(range(256)) * (count // 256)
    areas = [ctypes.addressof(area) for area in (source, target)]
    memory = agent.register_memory(
        [(area, count, 0, "") for area in areas], "DRAM", backends=["TCPX"]
    )
    here, there = areas if operation == "WRITE" else areas[::-1]
    descriptors = [agent.get_xfer_descs([(area, count, 0)], "DRAM") for area in (here, there)]
    begin = time.monotonic()
    handle = agent.initialize_xfer(operation, *descriptors, agent.name, b"done", backends=["TCPX"])
    state = agent.transfer(handle)
    while state == "PROC" and time.monotonic() - begin < DEADLINE:
        state = agent.check_xfer_state(handle)
    notifications = {}
    while state == "DONE" and not notifications and time.monotonic() - begin < DEADLINE:
        notifications = agent.get_new_notifs(backends=["TCPX"])
    took = (time.monotonic() - begin) * 1000
    agent.release_xfer_handle(handle)
    agent.deregister_memory(memory, backends=["TCPX"])
    if state != "DONE" or notifications != {agent.name: [b"done"]} or source.raw != target.raw:
        raise Unusable(f"a {operation} ends with {state} and notifications {notifications}")
    return took
