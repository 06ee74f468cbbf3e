"""What is refused, and in which words."""

import asyncio
import ctypes
import signal

import pytest

import tcpx
from conftest import PATIENCE


def test_memory_that_is_not_contiguous_is_refused_with_its_strides(pair):
    numpy = pytest.importorskip("numpy")
    here, _ = pair
    array = numpy.zeros((4, 8), dtype=numpy.float64)
    for strided in (array[:, ::2], array.T, array[::-1]):
        with pytest.raises(tcpx.BadMemory, match="not contiguous") as refused:
            here.export(strided)
        assert str(list(strided.strides)) in str(refused.value)
        assert "contiguous copy" in refused.value.cure
    assert here.export(array[1:3]).nbytes == 128
    assert here.export(array[:1].T).nbytes == 64, "one column is as good as one row"


def test_read_only_memory_is_sent_and_never_received_into(pair):
    here, there = pair
    remote = there.export(bytearray(4)).descriptor
    here.write(b"1234", remote).wait(PATIENCE)
    with pytest.raises(tcpx.BadMemory, match="read-only"):
        here.read(b"....", remote)
    with pytest.raises(tcpx.BadMemory, match="read-only"):
        here.recv("there", b"....")
    with pytest.raises(tcpx.BadMemory) as refused:
        _ = there.export(b"....", access="write").descriptor
    assert refused.value.diagnosis == "TCPX-825"


class OfGpu:
    """Bytes of this process, called memory of GPU 0: agents with emulated GPUs take them for that."""

    def __init__(self, data):
        self._data = (ctypes.c_char * len(data)).from_buffer(data)
        place = ctypes.addressof(self._data), False
        shape = (len(data),)
        self.__cuda_array_interface__ = {"data": place, "shape": shape, "typestr": "|u1", "version": 3}


def test_memory_of_a_gpu_is_sent_by_tag_by_an_agent_of_that_gpu_alone(agents):
    here, there = agents("here", emulated_gpus=1), agents("there", emulated_gpus=1)
    peer, array = here.add(there.address), OfGpu(bytearray(b"of a GPU"))
    with here.export(array, stream=-1) as buffer:
        assert buffer.device == "gpu0"
        for post in (here.send, here.recv):
            for memory in (array, buffer, buffer[2:4]):
                with pytest.raises(tcpx.BadMemory, match="with gpu = 0 alone") as refused:
                    post(peer, memory, stream=-1)
                assert refused.value.diagnosis == "TCPX-825"
    # It is read and written all the same.
    got = bytearray(8)
    here.write(array, there.export(got).descriptor, stream=-1).wait(PATIENCE)
    assert got == b"of a GPU"


def test_an_object_without_memory_is_a_type_error(pair):
    here, there = pair
    with pytest.raises(TypeError, match="float has no memory to move"):
        here.export(1.5)
    with pytest.raises(tcpx.BadMemory, match="the size is 0"):
        here.export(b"")
    with pytest.raises(TypeError):
        here.read(object(), there.export(b"x").descriptor)


def test_a_descriptor_opens_what_it_says_and_as_long_as_it_is_open(pair):
    here, there = pair
    memory = there.export(bytearray(8), access="read")
    descriptor = memory.descriptor
    with pytest.raises(tcpx.Refused) as refused:
        here.write(b"12345678", descriptor)
    assert refused.value.diagnosis == "TCPX-833" and refused.value.cure
    with pytest.raises(tcpx.BadMemory) as refused:
        here.read(bytearray(9), tcpx.Remote(descriptor, 0, 9))
    assert refused.value.diagnosis == "TCPX-832"
    with pytest.raises(tcpx.BadMemory, match="remote key"):
        here.read(bytearray(8), descriptor[:-1] + bytes([descriptor[-1] ^ 1]))
    memory.close()
    with pytest.raises(tcpx.Refused, match="taken back") as refused:
        here.read(bytearray(8), descriptor).wait(PATIENCE)
    assert refused.value.diagnosis == "TCPX-831"
    with pytest.raises(tcpx.Closed):
        there.send("here", memory)


def test_sizes_that_differ_name_both(pair):
    here, there = pair
    send = here.send("there", bytes(5), tag=1)
    receive = there.recv("here", bytearray(4), tag=1)
    with pytest.raises(tcpx.BadMemory, match="5 bytes, receiver 4"):
        receive.wait(PATIENCE)
    send.cancel()


def test_addresses_and_options_are_checked(agents, pair):
    here, there = pair
    for wrong in (b"", b"nonsense", there.address[:-1], b"\0" * 100):
        with pytest.raises(tcpx.ConfigError, match="address of a peer"):
            here.add(wrong)
    with pytest.raises(tcpx.ConfigError) as refused:
        agents("x", channels=65)
    assert "channels = 65" in str(refused.value) and refused.value.diagnosis
    with pytest.raises(ValueError, match="listen = nowhere"):
        agents("x", listen="nowhere")
    with pytest.raises(tcpx.ConfigError, match="was not added"):
        there.read(bytearray(1), here.export(b"1").descriptor)
    assert there.read(bytearray(1), here.export(b"1").descriptor, peer="here").wait(PATIENCE) is None


def test_errors_are_those_of_python_as_well():
    assert issubclass(tcpx.PeerLost, ConnectionError)
    assert issubclass(tcpx.Timeout, TimeoutError)
    assert issubclass(tcpx.BadMemory, ValueError)
    for kind in (tcpx.PeerLost, tcpx.Timeout, tcpx.Refused, tcpx.BadMemory, tcpx.ConfigError):
        error = kind("text", "TCPX-709", "do this")
        assert (str(error), error.diagnosis, error.cure) == ("text", "TCPX-709", "do this")
        assert isinstance(error, tcpx.Error)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGSTOP])
def test_a_peer_that_is_gone_ends_what_is_under_way(agents, children, stop):
    server, agent = children("serve", 8), agents("client", peer_timeout_ms=500, close_timeout_ms=100)
    address, descriptor = server.hear()
    peer = agent.add(address)
    agent.read(bytearray(8), descriptor).wait(PATIENCE)
    receive = agent.recv(peer, bytearray(8), tag=3)
    awaited = agent.recv(peer, bytearray(8), tag=4)
    agent.connect(peer).wait(PATIENCE)
    server.process.send_signal(stop)
    with pytest.raises(tcpx.PeerLost) as lost:
        receive.wait(PATIENCE)
    assert lost.value.diagnosis.startswith("TCPX-7") and "server" in str(lost.value)

    async def later():
        await awaited

    with pytest.raises(tcpx.PeerLost):
        asyncio.run(later())


def test_a_peer_that_was_never_there_is_lost(agents):
    gone, agent = agents("gone"), agents("client", connect_timeout_ms=2000)
    address = gone.address
    gone.close()
    peer = agent.add(address)
    with pytest.raises(tcpx.PeerLost):
        agent.send(peer, b"x").wait(PATIENCE)
    assert peer.state == "failed"
