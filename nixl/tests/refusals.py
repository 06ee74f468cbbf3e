"""What is wrong from outside: each is an error in words, and the agent goes on."""

import os
import subprocess
import sys

from agents import BACKEND, Agent, Peer, run
from ends import fails
from transfers import MIB, pair, span


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
    for right in ({"channels": "4"}, {"TCPX_CHANNELS": "4", "spin_us": ""}, {"unpack": "host"}):
        here = Agent("here", parameters=right)
        used = here.nixl.get_backend_params(BACKEND)
        assert all(used[name] == value for name, value in right.items()), used
    offered = Agent("here").nixl.get_plugin_params(BACKEND)
    assert offered["channels"] == "" and len(offered) > 15, offered
    # What is offered may be handed back.
    Agent("here", parameters=offered)


def words():
    """A parameter that does not exist is named in the log, with those that do."""
    program = (
        "from nixl._api import *\n"
        "a = nixl_agent('a', nixl_agent_config(backends=[]))\n"
        "try: a.create_backend('TCPX', {'chanels': '2'})\n"
        "except Exception: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=60, check=True, env=os.environ)
    assert "no parameter chanels; there are plugin" in done.stderr, done.stderr


def metadata():
    """Truncated, forged, of another version: refused, and what is right is still taken."""
    here, there = Agent("here"), Peer("there")
    with there:
        mine, its = here.add_area(MIB), there.add_area(MIB)
        right = there.metadata()
        info = right.index(b"tcpx-nixl/1 ")
        key = right.index(b"TCPXRKEY")
        for at in (info, info + 10, info + 20, info + 60, key, key + 8, key + 40, key + 80):
            wrong = bytearray(right)
            wrong[at] ^= 0x5A
            fails(f"metadata with another byte {at}", "MISMATCH|INVALID|BACKEND|NOT_FOUND",
                  here.know, bytes(wrong))
            forget_quietly(here)
        here.know(right)
        here.fill(0, 90)
        here.transfer("WRITE", span(mine, its, MIB), "there")
        assert there.is_filled(0, 90)


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


if __name__ == "__main__":
    run([parameters, words, metadata, ranges, names, kinds_of_memory])
