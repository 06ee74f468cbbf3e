"""Who keeps what alive, and how agents, processes and the interpreter end."""

import gc
import pathlib
import shutil
import subprocess
import sys
import weakref

import pytest

import tcpx
from conftest import PATIENCE


class Bytes(bytearray):
    """A bytearray that can be referred to weakly."""


def test_a_buffer_keeps_its_object_until_it_is_closed(pair):
    here, there = pair
    memory = Bytes(8)
    alive = weakref.ref(memory)
    descriptor = there.export(memory).descriptor
    del memory
    gc.collect()
    assert alive() is not None, "peers may use it, whatever becomes of the buffer"
    got = bytearray(8)
    here.read(got, descriptor).wait(PATIENCE)
    (buffer,) = there._exports
    buffer.close()
    del buffer
    gc.collect()
    assert alive() is None


def test_memory_without_a_descriptor_goes_with_its_buffer(pair):
    here, _ = pair
    memory = Bytes(8)
    alive = weakref.ref(memory)
    buffer = here.export(memory)
    del memory
    assert alive() is not None and buffer.nbytes == 8
    del buffer
    gc.collect()
    assert alive() is None


def test_what_is_under_way_keeps_its_memory(pair):
    here, there = pair
    memory = Bytes(b"12345678")
    alive = weakref.ref(memory)
    send = here.send("there", memory, tag=1)
    receive = here.recv("there", Bytes(8), tag=2)
    del memory
    gc.collect()
    assert alive() is not None
    got = bytearray(8)
    there.recv("here", got, tag=1).wait(PATIENCE)
    send.wait(PATIENCE)
    assert got == b"12345678"
    del send
    gc.collect()
    assert alive() is None
    receive.cancel()


def test_a_bytearray_cannot_be_resized_while_it_is_exported(pair):
    here, _ = pair
    memory = bytearray(8)
    with here.export(memory), pytest.raises(BufferError):
        memory.append(1)
    memory.append(1)


def test_closing_ends_what_is_under_way(agents):
    here, there = agents("here"), agents("there")
    peer = here.add(there.address)
    here.connect(peer).wait(PATIENCE)
    receive = here.recv(peer, bytearray(8), tag=1)
    here.close()
    with pytest.raises(tcpx.Closed):
        receive.wait(PATIENCE)
    with pytest.raises(tcpx.Closed):
        here.send(peer, b"x").wait(PATIENCE)
    here.close()
    assert here.is_closed and not there.is_closed


def test_an_agent_that_was_not_closed_warns_and_closes():
    agent = tcpx.Agent("lost")
    session = agent._session
    with pytest.warns(ResourceWarning, match="unclosed <tcpx.Agent lost>"):
        del agent
        gc.collect()
    with pytest.raises(tcpx.Closed):
        session.peer_state("x")


def test_a_program_may_end_with_everything_under_way(agents, children):
    agent = agents("server")
    descriptor = agent.export(bytes(32 << 20)).descriptor
    child = children("leave")
    child.say(agent.address, descriptor)
    assert child.hear() == [b"leaves"]
    assert child.end() == (0, "")


def test_a_forked_child_meets_an_error_and_harms_nothing(agents, children):
    agent = agents("server")
    child = children("fork")
    child.say(agent.address, agent.export(b"12345678").descriptor)
    assert child.hear() == [b"TCPX-827 TCPX-827 TCPX-827 TCPX-827", b"0"]
    assert child.end() == (0, "")


def test_processes_of_multiprocessing_have_agents_of_their_own(children):
    child = children("spawn")
    assert child.hear() == [b"from the parent", b"0"]
    assert child.end() == (0, "")


def test_importing_takes_neither_numpy_nor_torch():
    program = "import sys, tcpx; print({'numpy', 'torch', 'multiprocessing'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


def test_the_demo_and_the_command_come_with_the_package():
    demo = [sys.executable, "-m", "tcpx.demo", "--bytes", "1000003", "--seconds", "0.1"]
    shown = subprocess.run(demo, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert "write: " in shown and "every byte came back" in shown
    if "site-packages" not in tcpx.__file__:
        pytest.skip("the package was not installed from its wheel")
    command = shutil.which("tcpx", path=str(pathlib.Path(sys.executable).parent))
    shown = subprocess.run([command, "explain", "TCPX-827"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("TCPX-827 ")
