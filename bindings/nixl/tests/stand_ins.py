"""The plugin in the place of another backend: programs that know only UCX move bytes over tcpx."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version

from agents import DEADLINE, run

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "nixl_tcpx")
PLUGIN = os.path.join(os.environ["NIXL_PLUGIN_DIR"], "libplugin_TCPX.so")
UCX, LIBFABRIC = "libplugin_UCX.so", "libplugin_LIBFABRIC.so"

# It names no backend, so NIXL takes UCX, and hands over `num_threads`.
PROGRAM = """
import numpy
from nixl._api import nixl_agent, nixl_agent_config

here, there = (nixl_agent(name, nixl_agent_config(num_threads=2)) for name in ("here", "there"))
mine, its = (numpy.full(1 << 20, value, dtype=numpy.uint8) for value in (7, 0))
for agent, area in ((here, mine), (there, its)):
    agent.register_memory([(area.ctypes.data, area.nbytes, 0, "")], "DRAM")
here.add_remote_agent(there.get_agent_metadata())
there.add_remote_agent(here.get_agent_metadata())
local, remote = (
    here.get_xfer_descs([(area.ctypes.data, area.nbytes, 0)], "DRAM") for area in (mine, its)
)
handle = here.initialize_xfer("WRITE", local, remote, "there", b"done")
state = here.transfer(handle)
came = {}
while state == "PROC" or not came:
    state = here.check_xfer_state(handle)
    came = came or there.get_new_notifs()
    assert state != "ERR"
assert (its == 7).all() and came == {"here": [b"done"]}
loaded = open("/proc/self/maps").read()
print("loaded", *(word for word in ("libucp", "libplugin_UCX") if word in loaded))
"""
PARAMETERS = """
from nixl._api import nixl_agent, nixl_agent_config

def agent(**parameters):
    nixl_agent("one", nixl_agent_config(backends=[])).create_backend("UCX", parameters)

assert "channels" in nixl_agent("one", nixl_agent_config(backends=[])).get_plugin_params("UCX")
agent(channels="2", num_threads="8", ucx_error_handling_mode="peer")
try:
    agent(channels="two", device_list="mlx5_0")
    print("taken")
except Exception:
    print("refused")
"""


class Site:
    """A folder of packages with this one. With `nixl`, a NIXL of that version is in it, too, of
    which installation sees what it looks at."""

    def __init__(self, nixl=None):
        self.nixl = nixl

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        os.chmod(self.folder, 0o755)
        package = os.path.join(self.folder, "nixl_tcpx")
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PLUGIN, package)
        self.plugins = os.path.join(self.folder, ".nixl_cu12.mesonpy.libs", "plugins")
        if self.nixl:
            os.makedirs(os.path.join(self.folder, "nixl_cu12"))
            self.write("nixl_cu12/__init__.py", b"")
            os.makedirs(os.path.join(self.folder, f"nixl_cu12-{self.nixl}.dist-info"))
            metadata = f"Metadata-Version: 2.1\nName: nixl-cu12\nVersion: {self.nixl}\n"
            self.write(f"nixl_cu12-{self.nixl}.dist-info/METADATA", metadata.encode())
            os.makedirs(self.plugins)
            shutil.copy(original(), os.path.join(self.plugins, UCX))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def write(self, path, content):
        with open(os.path.join(self.folder, path), "wb") as file:
            file.write(content)

    def read(self, name):
        with open(os.path.join(self.plugins, name), "rb") as file:
            return file.read()

    def names(self):
        return sorted(os.listdir(self.plugins))

    def do(self, *words, options=(), prepare=None):
        """Runs `python -m nixl_tcpx` with these packages; of others, with its own Python's."""
        environment = {**os.environ, "PYTHONPATH": self.folder, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("NIXL_PLUGIN_DIR", None)
        return subprocess.run([sys.executable, *options, "-m", "nixl_tcpx", *words],
                              preexec_fn=prepare, capture_output=True, text=True, timeout=DEADLINE, check=False,
                              env=environment, cwd=self.folder)

    def must(self, *words):
        done = self.do(*words)
        assert done.returncode == 0, done
        return done.stdout

    def refuses(self, *words, **how):
        done = self.do(*words, **how)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done
        return done.stderr


def original():
    import nixl_cu12

    folder = os.path.join(os.path.dirname(nixl_cu12.__file__), "..", ".nixl_cu12.mesonpy.libs")
    return os.path.join(folder, "plugins", UCX)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def program(text, plugins=None):
    """Runs a program with the installed NIXL. Returns its last line, and its log."""
    environment = {**os.environ, "NIXL_LOG_LEVEL": "INFO", "NIXL_PLUGIN_DIR": plugins or ""}
    if not plugins:
        del environment["NIXL_PLUGIN_DIR"]
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          timeout=DEADLINE, check=False, env=environment)
    assert done.returncode == 0, done
    return done.stdout.splitlines()[-1], done.stderr


def bytes_move():
    """A program that names no backend: over tcpx after `install`, over UCX after `uninstall`."""
    before = content(original())
    with Site() as site:
        try:
            site.must("install", "--as", "UCX")
            shown, log = program(PROGRAM)
            assert shown == "loaded libplugin_UCX", shown
            assert log.count("INFO NIXL backend TCPX: loaded under the name UCX") == 2, log
            ignored = "INFO NIXL backend TCPX: parameter num_threads=2 of UCX has no effect"
            assert log.count(ignored) == 2, log
            said = site.must("check")
            assert f"UCX is TCPX {own()}: " in said and "NIXL's own UCX is kept: " in said, said
            assert "UCX: READ of 1 MiB with a notification: " in said, said
        finally:
            site.must("uninstall")
        assert content(original()) == before
        shown, log = program(PROGRAM)
        assert shown == "loaded libucp libplugin_UCX" and "backend TCPX" not in log, (shown, log)
        done = site.do("check")
        assert done.returncode == 1 and "UCX is NIXL's own, of " in done.stdout, done


def parameters():
    """Those of another backend have no effect, and a line each; wrong ones of its own are refused."""
    with Site() as site, tempfile.TemporaryDirectory() as plugins:
        site.must("install", "--as", "UCX", "--into", plugins)
        assert os.listdir(plugins) == [UCX]
        shown, log = program(PARAMETERS, plugins)
        assert shown == "refused", shown
        for ignored in ("num_threads=8", "ucx_error_handling_mode=peer", "device_list=mlx5_0"):
            line = f"INFO NIXL backend TCPX: parameter {ignored} of UCX has no effect"
            assert log.count(line) == 1, (line, log)
        assert "parameter channels=2" not in log, log
        assert "parameter channels=two: not a number" in log, log
        site.must("uninstall", "--into", plugins)
        assert os.listdir(plugins) == []


def own():
    """The version of the plugin."""
    with Site() as site:
        code = "from nixl_tcpx.installation import *; import sys; print(own_version(sys.argv[1]))"
        return subprocess.run([sys.executable, "-c", code, PLUGIN], capture_output=True, text=True,
                              check=True, cwd=site.folder).stdout.strip()


def originals():
    """They are kept once, survive a second installation, and are put back."""
    plugin, its = content(PLUGIN), content(original())
    with Site("1.5.1") as site:
        for _ in range(2):
            shown = site.must("install", "--as", "UCX")
            assert shown == os.path.join(site.plugins, UCX) + "\n", shown
            assert site.names() == [UCX, UCX + ".original"]
            assert site.read(UCX) == plugin and site.read(UCX + ".original") == its
        # One that NIXL never had.
        site.must("install", "--as", "LIBFABRIC")
        site.must("install")
        assert site.read(LIBFABRIC) == site.read("libplugin_TCPX.so") == plugin
        assert UCX in site.must("uninstall", "--as", "UCX")
        assert site.names() == ["libplugin_LIBFABRIC.so", "libplugin_TCPX.so", UCX]
        assert site.read(UCX) == its
        assert len(site.must("uninstall").splitlines()) == 2
        assert site.names() == [UCX] and site.read(UCX) == its
        assert "NIXL has no file of this package" in site.refuses("uninstall")


def updates():
    """NIXL was installed again over the plugin: its new file is the one that is kept or stays."""
    newer = content(original()) + b"newer"
    with Site("1.5.1") as site:
        for last in ("install", "uninstall"):
            site.must("install", "--as", "UCX")
            path = os.path.join(site.plugins, UCX)
            os.remove(path)
            site.write(path, newer)
            if last == "install":
                site.must("install", "--as", "UCX")
                assert site.read(UCX + ".original") == newer and site.read(UCX) == content(PLUGIN)
            site.must("uninstall")
            assert site.names() == [UCX] and site.read(UCX) == newer


def refusals():
    """No NIXL, one of another interface, a damaged file, another name: nothing changes."""
    with Site() as site:
        assert "no NIXL is installed" in site.refuses("install", "--as", "UCX", options=["-S"])
    with Site("0.10.1") as site:
        assert "NIXL 0.10.1 has another interface" in site.refuses("install", "--as", "UCX")
        assert site.names() == [UCX]
    with Site("1.5.1") as site:
        path, right = os.path.join(site.plugins, UCX), content(original())
        site.write(path, right.replace(b"Engine10disconnectE", b"Engine10disconnecxE"))
        said = site.refuses("install", "--as", "UCX")
        assert "function 9 is disconnecx instead of disconnect in " + path in said, said
        for wrong in (b"", right[:4096], b"text" * 99):
            site.write(path, wrong)
            assert f"{path} is no plugin of NIXL" in site.refuses("install", "--as", "UCX"), wrong
            assert site.names() == [UCX] and site.read(UCX) == wrong
        done = site.do("install", "--as", "POSIX")
        assert done.returncode == 64 and "invalid choice: 'POSIX'" in done.stderr, done


def obey_permissions():
    """Has a process of root obey the permissions of folders, as one of another user does."""
    drop_from_bounds, dac_override = 24, 1
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(drop_from_bounds, dac_override, 0, 0, 0) == 0, ctypes.get_errno()


def read_only():
    """A folder that may not be written to: what to do instead, and nothing changes."""
    with Site("1.5.1") as site:
        os.chmod(site.plugins, 0o555)
        said = site.refuses("install", "--as", "UCX", prepare=obey_permissions)
        assert f"{site.plugins} cannot be written to (" in said, said
        assert "install --as UCX --into FOLDER, and NIXL_PLUGIN_DIR=FOLDER" in said, said
        assert site.names() == [UCX]
        os.chmod(site.plugins, 0o755)
        said = site.refuses("install", "--into", "/sys/tcpx/nixl")
        assert "/sys/tcpx/nixl cannot be written to (" in said, said


if __name__ == "__main__":
    assert version("nixl")
    run([bytes_move, parameters, originals, updates, refusals, read_only])
