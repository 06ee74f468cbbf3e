"""The plugin among NIXL's own: under its name, or in the place of another backend.

NIXL chooses a backend's file by the backend's name. A program that knows only UCX takes this
package's plugin if that is what `libplugin_UCX.so` is. NIXL's own file is kept beside it.
Each step is one rename: NIXL finds a whole file of one or of the other, at any time.
"""

import contextlib
import errno
import os
import shutil

from . import elf, interface
from .places import (
    BACKEND, PLUGIN, STAND_INS, Unusable, file_of, kept_file, nixl_folders, plugin_folder,
)

REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def own_version(path):
    """Which version of tcpx a plugin file is; None for one of others."""
    try:
        return elf.exported_text(elf.read(path), "tcpx_nixl_version")
    except (OSError, elf.Malformed):
        return None


def install(name=BACKEND, into=None):
    """Puts the plugin where NIXL finds the backend `name`; into a folder of yours, for
    NIXL_PLUGIN_DIR, if you name one. Returns the files. Once more changes nothing but the plugin's
    version. Raises Unusable where there is no NIXL, or one of another interface, or the folder
    cannot be written to."""
    found = nixl_folders()
    for distribution, folder in found.items():
        interface.require(distribution, folder)
    if not into and not found:
        raise Unusable("no NIXL is installed for this Python")
    source = os.path.join(plugin_folder(), PLUGIN)
    files = []
    for folder in [into] if into else found.values():
        path = file_of(folder, name)
        with _writable(folder, name):
            os.makedirs(folder, exist_ok=True)
            if name != BACKEND:
                _keep(path)
            _replace(path, lambda new: shutil.copy(source, new))
        files.append(path)
    return files


def uninstall(name=None, into=None):
    """Removes what `install` has put there, and puts NIXL's own files back; for all names if none is
    given. Returns the files that it has changed."""
    changed = []
    for folder in [into] if into else nixl_folders().values():
        for each in [name] if name else [BACKEND, *STAND_INS]:
            path = file_of(folder, each)
            with _writable(folder, each):
                if _restore(path):
                    changed.append(path)
    return changed


def _restore(path):
    """Ends the replacement of a file. Returns whether there was one."""
    kept = kept_file(path)
    is_own, is_kept = own_version(path) is not None, os.path.exists(kept)
    if is_kept and (is_own or not os.path.exists(path)):
        os.replace(kept, path)
    elif is_kept:
        # NIXL was installed again meanwhile, and has put its own file there.
        os.remove(kept)
    elif is_own or (os.path.basename(path) == PLUGIN and os.path.exists(path)):
        os.remove(path)
    else:
        return False
    return True


def _keep(path):
    """Keeps NIXL's own file, if it is what stands there, beside it."""
    if not os.path.exists(path) or own_version(path) is not None:
        return
    try:
        is_plugin = "nixl_plugin_init" in elf.exported(elf.read(path))
    except elf.Malformed:
        is_plugin = False
    if is_plugin:
        _replace(kept_file(path), lambda new: _link(path, new))
    elif not os.path.exists(kept_file(path)):
        raise Unusable(f"{path} is no plugin of NIXL: install NIXL again")


def _link(path, new):
    """A second name of a file, or a copy where there are no such names."""
    try:
        os.link(path, new)
    except OSError:
        shutil.copy2(path, new)


def _replace(path, make):
    """Has `make` write a file under another name, and gives it this one."""
    new = f"{path}.{os.getpid()}.new"
    try:
        make(new)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(new)
        raise


@contextlib.contextmanager
def _writable(folder, name):
    """Says what to do about a folder that cannot be written to."""
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        raise Unusable(
            f"{folder} cannot be written to ({error.strerror}): do it as the owner of the folder (for"
            f" a container, when its image is built), or leave it as it is: python -m nixl_tcpx"
            f" install --as {name} --into FOLDER, and NIXL_PLUGIN_DIR=FOLDER where the program runs"
        ) from error
