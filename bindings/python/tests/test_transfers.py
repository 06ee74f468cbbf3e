"""Bytes between agents, in every way that they can move."""

import asyncio
import mmap
import os
import pickle

import pytest

import tcpx
from conftest import PATIENCE

# Read before the settings of the environment are dropped.
IS_LARGE = "TCPX_TEST_LARGE" in os.environ
SIZES = [1, 3, 4095, 4096, 65_537, 1 << 20, (16 << 20) + 3]


def pattern(nbytes, seed=0):
    return bytes((seed + index * 7) % 251 for index in range(min(nbytes, 1 << 12))) * (
        nbytes // (1 << 12) + 1
    )


@pytest.mark.parametrize("nbytes", SIZES)
def test_writes_and_reads_of_another_process(agents, children, nbytes):
    server, agent = children("serve", nbytes), agents("client")
    address, descriptor = server.hear()
    agent.add(address)
    sent = pattern(nbytes)[:nbytes]
    agent.write(sent, descriptor).wait(PATIENCE)
    server.say(b"?")
    assert server.hear() == [sent]
    back = bytearray(nbytes)
    agent.read(back, descriptor).wait(PATIENCE)
    assert back == sent


@pytest.mark.parametrize("nbytes", SIZES)
def test_sends_and_receives_with_another_process(agents, children, nbytes):
    server, agent = children("echo", nbytes), agents("client")
    (address,) = server.hear()
    peer = agent.add(address)
    sent, back = pattern(nbytes)[:nbytes], bytearray(nbytes)

    async def exchange():
        agent.notify(peer, b"next")
        send = agent.send(peer, sent, tag=1)
        await agent.recv(peer, back, tag=2)
        await send

    for _ in range(3):
        back[:] = bytes(nbytes)
        asyncio.run(exchange())
        assert back == sent
    agent.notify(peer, b"stop")
    server.say(b"parted")
    assert server.end()[0] == 0


def test_a_notification_comes_after_the_bytes_of_its_write(pair):
    here, there = pair
    memory = bytearray(8)
    buffer = there.export(memory)

    async def both():
        await here.write(b"12345678", buffer.descriptor, notify=b"block 7")
        async for note in there.notifications():
            return note, bytes(memory)

    note, seen = asyncio.run(both())
    assert (note, seen) == (("here", b"block 7"), b"12345678")
    assert (note.peer, note.data) == ("here", b"block 7")


def test_parts_and_lists_move_what_they_name(pair):
    here, there = pair
    source, target = here.export(bytearray(range(64))), bytearray(64)
    exported = there.export(target)
    remote = tcpx.Remote(exported.descriptor)
    here.write(source[8:16], remote[0:8]).wait(PATIENCE)
    here.write([source[0:4], source[60:64]], [remote[10:14], remote[20:24]]).wait(PATIENCE)
    expected = bytearray(64)
    expected[0:8] = range(8, 16)
    expected[10:14], expected[20:24] = range(4), range(60, 64)
    assert target == expected


def test_a_descriptor_is_bytes_and_remote_memory_can_be_pickled(pair):
    here, there = pair
    buffer = there.export(b"0123456789")
    descriptor = pickle.loads(pickle.dumps(buffer.descriptor))
    assert isinstance(descriptor, bytes) and len(descriptor) == 86
    part = pickle.loads(pickle.dumps(tcpx.Remote(descriptor)[2:6][1:3]))
    assert (part.nbytes, part.access, len(part)) == (2, "read", 2)
    got = bytearray(2)
    here.read(got, part).wait(PATIENCE)
    assert got == b"34"


class OnlyDlpack:
    """An object that offers DLPack and nothing else, as a torch.Tensor on the CPU."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class OldDlpack(OnlyDlpack):
    """The same from before DLPack had versions."""

    def __dlpack__(self, stream=None):
        return self._array.__dlpack__()


def test_every_kind_of_memory_moves(pair):
    numpy = pytest.importorskip("numpy")
    here, there = pair
    nbytes = 3 * 5 * 4
    arrays = [numpy.zeros((3, 5), dtype=numpy.float32) for _ in range(3)]
    file = mmap.mmap(-1, nbytes)
    kinds = [
        (bytearray(nbytes), bytes),
        (memoryview(bytearray(nbytes)).cast("i", (3, 5)), bytes),
        (file, lambda it: it[:]),
        (arrays[0], lambda it: it.tobytes()),
        (OnlyDlpack(arrays[1]), lambda it: it._array.tobytes()),
        (OldDlpack(arrays[2]), lambda it: it._array.tobytes()),
    ]
    for seed, (memory, seen) in enumerate(kinds):
        sent = pattern(nbytes, seed)[:nbytes]
        with there.export(memory) as buffer:
            assert (buffer.nbytes, buffer.device, buffer.readonly) == (nbytes, "host", False)
            here.write(sent, buffer.descriptor).wait(PATIENCE)
        assert seen(memory) == sent, type(memory)


def test_ten_thousand_operations_are_awaited_at_once(pair):
    here, there = pair
    memory = bytearray(4096)
    buffer, remote = here.export(bytearray(4096)), tcpx.Remote(there.export(memory).descriptor)

    async def one(read):
        await read

    async def all_of_them():
        await asyncio.gather(*(one(here.read(buffer, remote)) for _ in range(10_000)))

    asyncio.run(all_of_them())
    assert not here._under_way


def test_what_is_not_waited_for_moves_and_is_forgotten(pair):
    here, there = pair
    target = bytearray(1000)
    remote = tcpx.Remote(there.export(target).descriptor)
    for index in range(1000):
        here.write(bytes([index % 256]), remote[index : index + 1])
    # Later posts look which have ended.
    posts = 0
    while len(here._under_way) > 100:
        here.write(b"\0", remote[0:1])
        posts += 1
        assert posts < 1_000_000
    while here._under_way:
        here._session.wait_event()
        here._under_way.drain()
    assert target == bytes(index % 256 for index in range(1000))


def test_another_event_loop_does_as_well(pair):
    uvloop = pytest.importorskip("uvloop")
    here, there = pair
    remote = tcpx.Remote(there.export(bytearray(1 << 20)).descriptor)

    async def some():
        await asyncio.gather(*(asyncio.ensure_future(one(i)) for i in range(20)))

    async def one(index):
        await here.write(bytes(1 << 20), remote, notify=b"%d" % index)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(some())
    assert sorted(int(there.wait_notification(PATIENCE).data) for _ in range(20)) == list(range(20))


def test_two_agents_that_add_each_other_are_one_pair(agents):
    left, right = agents("left"), agents("right")
    to_right, to_left = left.add(right.address), right.add(left.address)
    got = [bytearray(4), bytearray(4)]
    transfers = [
        left.send(to_right, b"left", tag=1),
        right.send(to_left, b"rite", tag=1),
        left.recv(to_right, got[0], tag=1),
        right.recv(to_left, got[1], tag=1),
    ]
    for transfer in transfers:
        transfer.wait(PATIENCE)
    assert got == [b"rite", b"left"]
    assert (to_right.state, str(to_left)) == ("up", "left")


@pytest.mark.skipif(not IS_LARGE, reason="a GiB is for the nightly tests")
def test_a_gibibyte_and_more_moves(agents):
    here, there = agents("here"), agents("there")
    here.add(there.address)
    nbytes = (1 << 30) + 5
    sent, target = mmap.mmap(-1, nbytes), mmap.mmap(-1, nbytes)
    block = pattern(1 << 20)
    for at in range(0, nbytes, 1 << 24):
        sent[at : at + 5] = block[:5]
    sent[-5:] = b"12345"
    with here.export(sent) as source, there.export(target) as exported:
        here.write(source, exported.descriptor).wait(10 * PATIENCE)
        assert target[:] == sent[:]
        sent[:5] = b"other"
        here.read(source, exported.descriptor).wait(10 * PATIENCE)
        assert sent[:] == target[:]
