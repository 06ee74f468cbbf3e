"""Whether an installed NIXL has the interface that the plugin was built for.

NIXL calls a backend by the numbers of its virtual functions. Their order has changed without
another number of the interface, so it is read from one of NIXL's own plugins.
"""

import os

from . import elf
from .places import Unusable, file_of, kept_file, version_of

# With the interface of 1.0 it changed without another number.
OLDEST = (1, 0)
# The order that the plugin has.
FUNCTIONS = (
    "destructor", "destructor", "supportsRemote", "supportsLocal", "supportsNotif",
    "getSupportedMems", "registerMem", "deregisterMem", "connect", "disconnect", "unloadMD",
    "prepXfer", "postXfer", "checkXfer", "releaseReqH", "prepMemView of peers", "prepMemView",
    "releaseMemView", "getPublicData", "getConnInfo", "loadRemoteConnInfo", "loadRemoteMD",
    "loadLocalMD", "getNotifs", "genNotif", "queryMem", "estimateXferCost",
)
# Classes in NIXL's own plugins.
ENGINES = {"UCX": "13nixlUcxEngine", "LIBFABRIC": "19nixlLibfabricEngine",
           "POSIX": "15nixlPosixEngine"}


def numbers(version):
    """The first two numbers of a version."""
    return tuple(int(part) for part in version.split(".")[:2])


def require(distribution, folder):
    """Refuses a NIXL of another interface: by its version, and by its plugins in a folder."""
    installed = version_of(distribution)
    if installed is not None and numbers(installed) < OLDEST:
        raise Unusable(f"NIXL {installed} has another interface; 1.0 and later will do")
    for name, engine in ENGINES.items():
        path = file_of(folder, name)
        for file in (kept_file(path), path):
            if os.path.isfile(file):
                difference = _difference(file, engine)
                if difference:
                    raise Unusable(
                        f"NIXL {installed} has another interface than this plugin, which would end"
                        f" the program: {difference} in {file}"
                    )


def _difference(path, engine):
    """How the functions of a plugin differ from those of this package's, or None. A file that does
    not name its functions says nothing."""
    try:
        theirs = elf.virtual_functions(elf.read(path), engine)
    except elf.Malformed:
        return None
    if not theirs:
        return None
    if len(theirs) < len(FUNCTIONS):
        return f"{len(theirs)} functions instead of {len(FUNCTIONS)}"
    for number, (names, mine) in enumerate(zip(theirs, FUNCTIONS)):
        if names and mine not in names:
            return f"function {number} is {' or '.join(sorted(names))} instead of {mine}"
    return None
