"""The TCPX backend for NIXL: where its plugin file is, and where NIXL looks for it.

- `places`: names and folders. `elf`: what a library has in it, which is read and not loaded.
  `interface`: whether a NIXL has the interface that the plugin has. `installation`: the plugin
  among NIXL's own, under its name or another backend's. `check`: whether all of it works.
- `verify`: conformance of any backend. `verify_options`: its flags. `verify_one`: one check in a
  process. `verify_bytes`, `verify_lists`, `verify_peers`: the checks. `verify_agent`: agents and
  peers of them.
"""

from .installation import install, uninstall
from .places import PLUGIN, STAND_INS, Unusable, nixl_folders, plugin_folder

__all__ = [
    "PLUGIN", "STAND_INS", "Unusable", "install", "nixl_folders", "plugin_folder", "uninstall",
]
