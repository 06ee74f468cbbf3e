"""What stands where NIXL looks for backends, and whether an agent reaches itself through it."""

import ctypes
import os
import time

from . import elf, interface
from .installation import own_version
from .places import BACKEND, STAND_INS, Unusable, file_of, kept_file, nixl_folders, version_of

DEADLINE = 30


def plugin_version(path):
    """Which version of tcpx a plugin file is. The loader says what it lacks, as NIXL does not."""
    if elf.is_cut_off(elf.read(path)):
        raise Unusable(f"the plugin cannot be used: {path} is cut off")
    try:
        library = ctypes.CDLL(path)
        text = ctypes.c_char.in_dll(library, "tcpx_nixl_version")
    except (OSError, ValueError) as error:
        raise Unusable(f"the plugin cannot be used: {error}") from error
    return ctypes.string_at(ctypes.addressof(text)).decode()


def folders():
    """Folders in which NIXL looks for plugins."""
    named = os.environ.get("NIXL_PLUGIN_DIR")
    return [named] if named else list(nixl_folders().values())


def own_plugins():
    """Files of this package that NIXL may load: (name, path, version)."""
    found = []
    for folder in folders():
        for name in (BACKEND, *STAND_INS):
            path = file_of(folder, name)
            if name == BACKEND and os.path.exists(path) or own_version(path) is not None:
                found.append((name, path, plugin_version(path)))
    own = version_of("nixl-tcpx")
    for name, path, other in found:
        if own is not None and other != own:
            again = "install" if name == BACKEND else f"install --as {name}"
            raise Unusable(f"{path} is {other}, and this package {own}: run {again} again")
    return found


def others(installed):
    """Lines on NIXL's own files under the names that this package's may have."""
    for folder in folders():
        for name in STAND_INS:
            path = file_of(folder, name)
            if os.path.exists(path) and own_version(path) is None:
                yield f"{name} is NIXL's own, of {installed}: {path}"
            if os.path.exists(kept_file(path)):
                yield f"NIXL's own {name} is kept: {kept_file(path)}"


def check():
    """Moves bytes between two areas of an agent. Yields what was seen, line by line."""
    installed = version_of("nixl")
    if installed is not None and interface.numbers(installed) < interface.OLDEST:
        raise Unusable(f"NIXL {installed} has another interface; 1.0 and later will do")
    try:
        from nixl._api import nixl_agent, nixl_agent_config
    except Exception as error:  # pylint: disable=broad-except
        raise Unusable(f"NIXL is not installed, or cannot be imported: {error}") from error
    for distribution, folder in nixl_folders().items():
        interface.require(distribution, folder)
    files = own_plugins()
    for name, path, number in files:
        yield f"{name} {number} is {path}" if name == BACKEND else f"{name} is TCPX {number}: {path}"
    yield from others(installed)
    agent = nixl_agent("nixl_tcpx check", nixl_agent_config(backends=[]))
    names = agent.get_plugin_list()
    yield f"NIXL {installed} has {', '.join(sorted(names))}"
    own = [name for name in dict.fromkeys(name for name, _, _ in files) if name in names]
    if not own:
        raise Unusable(f"NIXL finds no TCPX, only {', '.join(names)}: run install first")
    for backend in own:
        try:
            agent.create_backend(backend)
        except Exception as error:  # pylint: disable=broad-except
            why = f"the backend cannot be made: {error}; the lines above say why"
            raise Unusable(why) from error
        for operation in ("WRITE", "READ"):
            took = transfer(agent, backend, operation)
            yield f"{backend}: {operation} of 1 MiB with a notification: {took:.1f} ms"


def transfer(agent, backend, operation):
    """One to itself. Returns the milliseconds that it took."""
    count = 1 << 20
    source, target = (ctypes.create_string_buffer(count) for _ in range(2))
    source.raw = bytes(range(256)) * (count // 256)
    areas = [ctypes.addressof(area) for area in (source, target)]
    memory = agent.register_memory(
        [(area, count, 0, "") for area in areas], "DRAM", backends=[backend]
    )
    here, there = areas if operation == "WRITE" else areas[::-1]
    descriptors = [agent.get_xfer_descs([(area, count, 0)], "DRAM") for area in (here, there)]
    begin = time.monotonic()
    handle = agent.initialize_xfer(operation, *descriptors, agent.name, b"done", backends=[backend])
    state = agent.transfer(handle)
    while state == "PROC" and time.monotonic() - begin < DEADLINE:
        state = agent.check_xfer_state(handle)
    notifications = {}
    while state == "DONE" and not notifications and time.monotonic() - begin < DEADLINE:
        notifications = agent.get_new_notifs(backends=[backend])
    took = (time.monotonic() - begin) * 1000
    agent.release_xfer_handle(handle)
    agent.deregister_memory(memory, backends=[backend])
    if state != "DONE" or notifications != {agent.name: [b"done"]} or source.raw != target.raw:
        raise Unusable(f"a {operation} ends with {state} and notifications {notifications}")
    return took
