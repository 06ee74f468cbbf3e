"""What is wrong from outside: each is an error in words, and the agent goes on."""

import os
import re
import struct
import subprocess
import sys
import tempfile

from agents import BACKEND, DEADLINE, Agent, Peer, run
from ends import fails
from transfers import MIB, pair, span

# What NIXL writes of a range before the backend's key to it: address, length, device.
RECORD = 24


def parameters():
    """Unknown ones, those that are no numbers, those that are out of range; by either name."""
    for wrong in (
        {"chanels": "2"},
        {"channels": "two"},
        {"channels": "2x"},
        {"channels": "-1"},
        {"channels": "99999999999"},
        {"channels": "2", "TCPX_CHANNELS": "4"},
        {"peer_timeout_ms": "5"},
        {"plugin": "/nowhere/libnccl-net.so"},
        {"listen": "nowhere"},
    ):
        fails(str(wrong), "BACKEND|INVALID_PARAM", Agent, "here", None, wrong)
    for right in ({"channels": "4"}, {"channels": "0"}, {"TCPX_CHANNELS": "4", "spin_us": ""}, {"unpack": "host"}):
        here = Agent("here", parameters=right)
        used = here.nixl.get_backend_params(BACKEND)
        assert all(used[name] == value for name, value in right.items()), used
    offered = Agent("here").nixl.get_plugin_params(BACKEND)
    assert offered["channels"] == "" and len(offered) > 15, offered
    # What is offered may be handed back.
    Agent("here", parameters=offered)


def environment():
    """Variables stand in for what a program cannot pass; what it does pass counts first."""
    log = logged("attempt(Agent, 'a')", {"TCPX_CHANNELS": "two"})
    assert "TCPX_CHANNELS = two" in log, log
    # An empty one, as a template leaves it, is none.
    log = logged("Agent('a')", {"TCPX_CHANNELS": ""})
    assert "NIXL backend TCPX" not in log, log
    for parameters_, used in (({}, 7), ({"advertise": "127.0.0.8"}, 8)):
        with Peer("there", None, parameters_, {"TCPX_ADVERTISE": "127.0.0.7"}) as there:
            told = there.metadata()
            assert [bytes([127, 0, 0, n]) in told for n in (7, 8)] == [used == 7, used == 8], told


def logged(program, variables=None):
    """What a program writes to the log whose last lines may fail."""
    begin = (
        "import sys\n"
        "from agents import Agent\n"
        "def attempt(call, *arguments):\n"
        "    try: call(*arguments)\n"
        "    except Exception: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True,
                          timeout=DEADLINE, check=True, env={**os.environ, **(variables or {})},
                          cwd=os.path.dirname(__file__))
    return done.stderr


def words():
    """NIXL's log names each error in one line."""
    log = logged("attempt(Agent, 'a', None, {'chanels': '2'})")
    assert "no parameter chanels; there are plugin" in log, log
    log = logged("attempt(Agent, 'a', None, {'channels': 'two'})")
    assert "parameter channels=two: not a number" in log, log
    there = Agent("there")
    area = there.add_area(4096)
    right = there.metadata()
    way, key = right.index(b"tcpx-nixl/1 "), right.index(b"TCPXRKEY")
    for what, wrong, line in (
        ("another version", right.replace(b"tcpx-nixl/1 ", b"tcpx-nixl/2 "),
         "the connection info of agent there is damaged, of another backend, or of another version of this one"),
        ("a forged way", flipped(right, way + 40),
         "the connection info of there#"),
        ("a cut way", cut(right, way, 20), "the connection info of there#"),
        ("nothing but the version", cut(right, way, None, 12),
         "the connection info of there#"),
        ("a forged key", flipped(right, key + 8), "metadata of agent there"),
        ("a cut key", cut(right, key - RECORD, 8), "metadata of agent there"),
    ):
        log = logged(f"a = Agent('here')\nattempt(a.know, {wrong!r})")
        assert f"NIXL backend TCPX: {line}" in log, (what, log)
    log = logged(
        f"a = Agent('here')\nm = a.add_area(4096)\na.know({right!r})\n"
        f"attempt(a.transfer, 'WRITE', [(m[1], 0, {area[1]}, 0, 4096)], 'there', b'x' * 70000)"
    )
    assert "a notification of 70000 bytes is too long" in log, log


def flipped(metadata, at):
    wrong = bytearray(metadata)
    wrong[at] ^= 0x5A
    return bytes(wrong)


def cut(metadata, at, less, keep=None):
    """Metadata with a part in it that is shorter, and its length, which NIXL writes before it."""
    (count,) = struct.unpack_from("<Q", metadata, at - 8)
    left = count - less if keep is None else keep
    assert 0 < left < count <= len(metadata) - at, (count, left)
    begin = metadata[: at - 8] + struct.pack("<Q", left)
    return begin + metadata[at : at + left] + metadata[at + count :]


def cut_off():
    """Metadata that ends too early, anywhere, is refused, and the agent goes on."""
    here, there = Agent("here"), Agent("there")
    mine, its = here.add_area(4096), there.add_area(4096)
    right = there.metadata()
    for count in range(0, len(right), 17):
        fails(f"metadata of {count} bytes", "MISMATCH|INVALID|BACKEND|NOT_FOUND",
              here.know, right[:count])
        forget_quietly(here)
    here.know(right)
    here.transfer("WRITE", span(mine, its, 4096), "there", b"whole")
    assert there.notifications("here") == [b"whole"]


def another_nixl():
    """The wheel's check refuses a NIXL whose interface is another one."""
    with tempfile.TemporaryDirectory() as site:
        os.mkdir(f"{site}/nixl-0.10.1.dist-info")
        with open(f"{site}/nixl-0.10.1.dist-info/METADATA", "w", encoding="ascii") as file:
            file.write("Metadata-Version: 2.1\nName: nixl\nVersion: 0.10.1\n")
        done = checked(site, os.environ["NIXL_PLUGIN_DIR"])
    assert done.returncode == 1 and "NIXL 0.10.1 has another interface" in done.stderr, done


def checked(site, plugins):
    """What the wheel's check says with these packages and this folder of plugins."""
    package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")
    path = os.pathsep.join(filter(None, [site, package, os.environ.get("PYTHONPATH")]))
    return subprocess.run([sys.executable, "-m", "nixl_tcpx", "check"], capture_output=True,
                          text=True, timeout=DEADLINE, check=False,
                          env={**os.environ, "PYTHONPATH": path, "NIXL_PLUGIN_DIR": plugins})


def another_file():
    """The wheel's check says which file it finds, and refuses one that is damaged or another."""
    name = "libplugin_TCPX.so"
    with open(os.path.join(os.environ["NIXL_PLUGIN_DIR"], name), "rb") as file:
        right = file.read()
    with tempfile.TemporaryDirectory() as site, tempfile.TemporaryDirectory() as plugins:
        where = os.path.join(plugins, name)
        with open(where, "wb") as file:
            file.write(right)
        done = checked(site, plugins)
        own = re.search(rf"TCPX (\S+) is {where}", done.stdout)
        assert done.returncode == 0 and own, done
        info = f"{site}/nixl_tcpx-9.1.0.dist-info"
        os.mkdir(info)
        with open(f"{info}/METADATA", "w", encoding="ascii") as file:
            file.write("Metadata-Version: 2.1\nName: nixl-tcpx\nVersion: 9.1.0\n")
        done = checked(site, plugins)
        assert done.returncode == 1, done
        assert f"{where} is {own[1]}, and this package 9.1.0: run install" in done.stderr, done
        for wrong in (b"", right[:4096]):
            with open(where, "wb") as file:
                file.write(wrong)
            done = checked(site, plugins)
            assert done.returncode == 1 and "the plugin cannot be used: " in done.stderr, done


def metadata():
    """Truncated, forged, of another version: refused, and what is right is still taken."""
    here, there = Agent("here"), Peer("there")
    with there:
        mine, its = here.add_area(MIB), there.add_area(MIB)
        right = there.metadata()
        info = right.index(b"tcpx-nixl/1 ")
        key = right.index(b"TCPXRKEY")
        for at in (info, info + 10, info + 20, info + 60, key, key + 8, key + 40, key + 80):
            fails(f"metadata with another byte {at}", "MISMATCH|INVALID|BACKEND|NOT_FOUND",
                  here.know, flipped(right, at))
            forget_quietly(here)
        here.know(right)
        here.fill(0, 90)
        here.transfer("WRITE", span(mine, its, MIB), "there")
        assert there.is_filled(0, 90)


def parts():
    """Metadata of memory alone is refused until the agent's connection info has come."""
    here, there = Agent("here"), Peer("there", kind=InParts)
    with there:
        mine, its = here.add_area(4096), there.add_area(4096)
        memory = there.memory_alone()
        fails("memory alone", "NOT_FOUND", here.know, memory)
        log = logged(f"a = Agent('here')\nattempt(a.know, {memory!r})")
        assert "metadata of agent there without its connection info" in log, log
        here.know(there.metadata())
        here.know(memory)
        here.fill(0, 92)
        here.transfer("WRITE", span(mine, its, 4096), "there")
        assert there.is_filled(0, 92)


class InParts(Agent):
    """An agent that also sends its memory's metadata alone."""

    def memory_alone(self):
        area = self.areas[0]
        descriptors = self.nixl.get_reg_descs([(area.ctypes.data, len(area), 0, "")], "DRAM")
        return self.nixl.get_partial_agent_metadata(descriptors, False, backends=[BACKEND])


def forget_quietly(agent):
    """NIXL may know some of a peer whose metadata it has refused."""
    try:
        agent.forget("there")
    except Exception as error:  # pylint: disable=broad-except
        assert "NOT_FOUND" in str(error), error


def ranges():
    """Memory that is not registered, here or there."""
    here, there, mine, its = pair(4096)
    with there:
        for pairs in ([(mine[1], 0, its[1] + 1, 0, 4096)], [(mine[1] + 1, 0, its[1], 0, 4096)],
                      [(mine[1], 0, 4096, 0, 16)]):
            fails("a range", "NOT_FOUND|INVALID_PARAM", here.prepare, "WRITE", pairs, "there")
        here.transfer("WRITE", span(mine, its, 4096), "there")


def names():
    """Agents whose names tcpx would not take: long, with odd letters, as tcpx names devices."""
    for name in ("x" * 200, "decode/gpu1", "ein \u00dcberläufer\n", "a#1", " "):
        here, there = Agent(name), Peer("there")
        with there:
            mine, its = here.add_area(4096), there.add_area(4096)
            here.know(there.metadata())
            assert there.know(here.metadata()) == name
            here.fill(0, 91)
            here.transfer("WRITE", span(mine, its, 4096), "there", b"named")
            assert there.is_filled(0, 91)
            assert there.notifications(name) == [b"named"]
            there.notify(name, b"back")
            assert here.notifications("there") == [b"back"]


def kinds_of_memory():
    """Files and objects are for other backends."""
    here = Agent("here")
    for kind in ("FILE", "BLOCK", "OBJ"):
        fails(kind, "NOT_FOUND|NOT_SUPPORTED|BACKEND|INVALID", here.add_area, 4096, kind, 0)


def left_out():
    """What the backend does not offer is refused, and the transfer that it was asked of goes on."""
    here, there, mine, its = pair(4096)
    with there:
        here.fill(0, 93)
        handle = here.prepare("WRITE", span(mine, its, 4096), "there", b"on")
        fails("an estimate", "NOT_SUPPORTED", here.nixl.estimate_xfer_cost, handle)
        memory = [(mine[1], 4096, 0, "")]
        fails("a query", "NOT_SUPPORTED", here.nixl.query_memory, memory, BACKEND, "DRAM")
        here.post(handle)
        here.finish(handle)
        here.nixl.release_xfer_handle(handle)
        assert there.is_filled(0, 93) and there.notifications("here") == [b"on"]


if __name__ == "__main__":
    run([
        parameters, environment, words, metadata, parts, cut_off, another_nixl, another_file,
        ranges, names, kinds_of_memory, left_out,
    ])
