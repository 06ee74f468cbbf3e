"""The TCPX backend for NIXL: where its plugin file is, and where NIXL looks for it."""

import importlib.util
import os
import shutil

PLUGIN = "libplugin_TCPX.so"
# Distributions of NIXL, for one major version of CUDA each.
DISTRIBUTIONS = ("nixl_cu12", "nixl_cu13")


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


def install():
    """Copies the plugin beside NIXL's own. Returns the files."""
    files = []
    for folder in nixl_folders().values():
        file = os.path.join(folder, PLUGIN)
        # Under its name it is whole, or not there: a process may load it at any time.
        shutil.copyfile(os.path.join(plugin_folder(), PLUGIN), file + ".new")
        os.replace(file + ".new", file)
        files.append(file)
    return files


def uninstall():
    """Removes what `install` has copied. Returns the files."""
    files = [os.path.join(folder, PLUGIN) for folder in nixl_folders().values()]
    files = [file for file in files if os.path.exists(file)]
    for file in files:
        os.remove(file)
    return files
