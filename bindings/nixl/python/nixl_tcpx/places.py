"""Names and folders: of this package's plugin, and of the installed NIXL's."""

import importlib.util
import os
from importlib.metadata import PackageNotFoundError, version

BACKEND = "TCPX"
# Backends of NIXL that programs choose by themselves, and whose place this one can take.
STAND_INS = ("UCX", "LIBFABRIC")
# Distributions of NIXL: the first one was for all, later ones are for a major version of CUDA.
DISTRIBUTIONS = ("nixl", "nixl_cu12", "nixl_cu13")


class Unusable(Exception):
    """Why the backend does not work here."""


def file_of(folder, name):
    """The file in which NIXL finds a backend."""
    return os.path.join(folder, f"libplugin_{name}.so")


PLUGIN = os.path.basename(file_of("", BACKEND))


def kept_file(path):
    """Where NIXL's own file is kept while this package's has its name. NIXL loads no such name."""
    return path + ".original"


def plugin_folder():
    """The folder of this package's plugin: a value for NIXL_PLUGIN_DIR, with TCPX alone."""
    return os.path.dirname(os.path.abspath(__file__))


def nixl_folders():
    """Where the installed NIXL looks for plugins, by distribution."""
    folders = {}
    for name in DISTRIBUTIONS:
        found = importlib.util.find_spec(name)
        if found is None or not found.submodule_search_locations:
            continue
        site = os.path.dirname(list(found.submodule_search_locations)[0])
        folder = os.path.join(site, f".{name}.mesonpy.libs", "plugins")
        if os.path.isdir(folder):
            folders[name] = folder
    return folders


def version_of(distribution):
    """The version of an installed distribution, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
