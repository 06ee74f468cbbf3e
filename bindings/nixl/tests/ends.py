"""Agents that end, freeze, come back or take their memory away while others use it."""

import hashlib
import itertools
import os
import struct
import subprocess
import time

from agents import BOUND, Agent, Link, Peer, run, until
from transfers import MIB, pair, span

# How long a silent peer is waited for, in the agents of these tests: long enough for one that is
# there, on a busy machine.
SILENCE = {"peer_timeout_ms": "8000"}


def fails(what, expected, call, *arguments):
    """A call that NIXL refuses with this status."""
    try:
        result = call(*arguments)
    except Exception as error:  # pylint: disable=broad-except
        assert any(status in str(error) for status in expected.split("|")), f"{what}: {error}"
        return
    raise AssertionError(f"{what} gives {result}")


def must_fail(agent, handle, expected="REMOTE_DISCONNECT|NOT_FOUND"):
    """Waits for the end of a transfer, which is a failure."""
    until("its end", lambda: has_ended(agent, handle))
    assert has_failed(agent, handle, expected), "it is done"


def has_failed(agent, handle, expected):
    try:
        state = agent.state(handle)
    except Exception as error:  # pylint: disable=broad-except
        assert any(status in str(error) for status in expected.split("|")), error
        return True
    return state == "ERR"


def peer_harmed(operation, harm):
    """A transfer of 256 MiB whose peer is harmed while it is under way."""
    count = 256 * MIB
    here, there = Agent("here", parameters=SILENCE), Peer("there", parameters=SILENCE)
    with there:
        mine, its = here.add_area(count), there.add_area(count)
        here.know(there.metadata())
        here.transfer("WRITE", span(mine, its, 4096), "there")
        handle = here.prepare(operation, span(mine, its, count), "there")
        here.post(handle)
        begin = time.monotonic()
        harm(there)
        must_fail(here, handle)
        assert time.monotonic() - begin < BOUND
        # Whatever was under way, the memory is this program's again.
        begin = time.monotonic()
        here.drop_area(0)
        here.nixl.release_xfer_handle(handle)
        assert time.monotonic() - begin < BOUND
        there.process.kill()
        there.process.join()


def killed():
    """A peer that is killed ends transfers at once, and its notifications too."""
    for operation in ("WRITE", "READ"):
        peer_harmed(operation, Peer.kill)


def frozen():
    """A peer that is stopped ends them after the time that it may be silent."""
    for operation in ("WRITE", "READ"):
        peer_harmed(operation, Peer.freeze)


def initiator_harmed():
    """Memory that a peer writes is the program's again, though the peer is killed or stopped."""
    count = 256 * MIB
    for harm in (Peer.kill, Peer.freeze):
        target = Agent("target", parameters=SILENCE)
        with Peer("writer", parameters=SILENCE) as writer, Peer("other") as other:
            area = target.add_area(count)
            theirs, others = writer.add_area(count), other.add_area(4096)
            for peer in (writer, other):
                peer.know(target.metadata())
            writer.fill(0, 48)
            writer.begin("transfer", "WRITE", span(theirs, area, count), "target")
            until("the first bytes", lambda: target.areas[0][:64].any())
            harm(writer)
            begin = time.monotonic()
            target.drop_area(0)
            assert time.monotonic() - begin < BOUND
            target.fill(0, 46)
            # Others are served as before.
            target.add_area(4096)
            other.forget("target")
            other.know(target.metadata())
            other.fill(0, 47)
            other.transfer("WRITE", span(others, (1, target.areas[1].ctypes.data, "DRAM", 0), 4096),
                           "target", b"served")
            assert b"served" in target.notifications("other")
            assert target.is_filled(1, 47) and target.is_filled(0, 46)
            writer.process.kill()
            writer.process.join()


def continued_after_freeze():
    """A peer that was stopped for too long, and goes on. What is posted next connects the two."""
    here, there = Agent("here", parameters=SILENCE), Peer("there", parameters=SILENCE)
    with there:
        mine, its = here.add_area(MIB), there.add_area(MIB)
        # What a lost transfer has sent goes on landing in `its` after the thaw: as long as the
        # program there has heard of no end, only memory that no peer writes is its own to fill.
        own = there.add_area(MIB)
        metadata = there.metadata()
        here.know(metadata)
        there.know(here.metadata())
        here.transfer("WRITE", span(mine, its, MIB), "there")
        # Neither end loads anything; the stopped one posts first, and the other one loads again
        # what it knows; or it does so after a removal.
        for seed, case in enumerate(("here first", "there first", "removed")):
            handle = here.prepare("WRITE", span(mine, its, MIB), "there")
            there.freeze()
            here.post(handle, b"lost %d" % seed)
            must_fail(here, handle, "REMOTE_DISCONNECT")
            there.thaw()
            if case == "there first":
                there.fill(own[0], 10 + seed)
                there.transfer_at_last("WRITE", span(own, mine, MIB), "here", b"theirs %d" % seed)
                assert here.notifications("there") == [b"theirs %d" % seed]
                assert here.is_filled(0, 10 + seed)
            if case == "removed":
                here.nixl.release_xfer_handle(handle)
                here.forget("there")
            if case != "here first":
                here.know(metadata)
            if case == "removed":
                handle = here.prepare("WRITE", span(mine, its, MIB), "there")
            here.fill(0, 20 + seed)
            here.post(handle, b"again %d" % seed)
            here.finish(handle)
            # What had failed may have reached it before it was stopped, and comes first then.
            note = b"again %d" % seed
            until("it", lambda: note in there.notifications("here"))  # pylint: disable=cell-var-from-loop
            assert there.is_filled(0, 20 + seed)
            there.fill(0, 30 + seed)
            here.transfer("READ", span(mine, its, MIB), "there", b"read %d" % seed)
            assert there.notifications("here") == [b"read %d" % seed]
            assert here.is_filled(0, 30 + seed)
            here.nixl.release_xfer_handle(handle)


def cut_off():
    """Two agents whose link is cut for longer than the silence limit, and restored."""
    if os.geteuid() != 0 or subprocess.run(("ip", "netns"), check=False).returncode != 0:
        print("  skipped: it takes root and network namespaces", flush=True)
        return
    with Link() as link:
        left = Peer("left", parameters=SILENCE, environment=link.place("left"))
        right = Peer("right", parameters=SILENCE, environment=link.place("right"))
        with left, right:
            here, there = left.add_area(MIB), right.add_area(MIB)
            left.know(right.metadata())
            right.know(left.metadata())
            left.transfer("WRITE", span(here, there, MIB), "right")
            link.set("down")
            cut_at = time.monotonic()
            # The first ends when the other one was silent for too long, those after it because it
            # cannot be reached.
            while time.monotonic() < cut_at + 15:
                refused = left.refusal_of("transfer", "WRITE", span(here, there, MIB), "right")
                assert "REMOTE_DISCONNECT" in refused, refused
            link.set("up")
            left.fill(0, 70)
            left.transfer_at_last("WRITE", span(here, there, MIB), "right", b"restored")
            assert right.notifications("left") == [b"restored"]
            assert right.is_filled(0, 70)
            right.fill(0, 71)
            right.transfer_at_last("WRITE", span(there, here, MIB), "left", b"so it is")
            assert left.notifications("right") == [b"so it is"]
            assert left.is_filled(0, 71)


def restarted():
    """A peer that was killed and is started again under its name, from metadata to data."""
    here = Agent("here")
    mine = here.add_area(MIB)
    for generation in range(3):
        with Peer("there") as there:
            its = there.add_area(MIB)
            here.know(there.metadata())
            there.know(here.metadata())
            here.fill(0, 40 + generation)
            handle = here.prepare("WRITE", span(mine, its, MIB), "there", b"%d" % generation)
            here.post(handle)
            here.finish(handle)
            assert there.is_filled(0, 40 + generation)
            assert there.notifications("here") == [b"%d" % generation]
            there.notify("here", b"from %d" % generation)
            assert here.notifications("there") == [b"from %d" % generation]
            there.kill()
            gone = "REMOTE_DISCONNECT|NOT_FOUND"
            fails("a post to a peer that is gone", gone, post_till_it_fails, here, handle)
            here.nixl.release_xfer_handle(handle)
            forget_if_known(here, "there")


def post_till_it_fails(agent, handle):
    agent.post(handle)
    until("the failure", lambda: agent.state(handle) == "ERR")


def forget_if_known(agent, name):
    """NIXL of some versions has unloaded a peer that is gone."""
    try:
        agent.forget(name)
    except Exception as error:  # pylint: disable=broad-except
        assert "NOT_FOUND" in str(error), error


def deregistered_by_peer():
    """Memory that the peer takes back in mid-write is not touched afterwards."""
    count = 64 * MIB
    here, there, mine, _ = pair(4096)
    with there:
        source, target = here.add_area(count), there.add_area(count)
        here.fill(1, 50)
        forget_if_known(here, "there")
        here.know(there.metadata())
        handle = here.prepare("WRITE", span(source, target, count), "there")
        there.begin("drop_when_written", 1)
        here.post(handle)
        there.answer()
        there.fill(1, 51)
        # It may have been finished, or given up.
        until("its end", lambda: has_ended(here, handle))
        here.nixl.release_xfer_handle(handle)
        assert there.is_filled(1, 51)
        # What was known is stale; with new metadata the two go on.
        again = there.add_area(4096)
        forget_if_known(here, "there")
        here.know(there.metadata())
        here.transfer("WRITE", span(mine, again, 4096), "there", b"go on")
        assert b"go on" in there.notifications("here")


def stale():
    """A transfer whose memory was taken back before it is posted."""
    here, there, mine, _ = pair(4096)
    with there:
        for operation in ("WRITE", "READ"):
            number = there.add_area(4096)
            forget_if_known(here, "there")
            here.know(there.metadata())
            handle = here.prepare(operation, span(mine, number, 4096), "there")
            there.drop_area(number[0])
            fails(operation, "REMOTE_DISCONNECT|NOT_FOUND", post_till_it_fails, here, handle)
            here.nixl.release_xfer_handle(handle)


def dropped_here():
    """Memory of the initiator is free when deregistering it returns, whatever is under way."""
    count = 64 * MIB
    here, there, mine, its = pair(count)
    with there:
        there.fill(0, 52)
        handle = here.prepare("READ", span(mine, its, count), "there")
        here.post(handle)
        here.drop_area(0)
        here.areas[0][:] = 0
        until("its end", lambda: has_ended(here, handle))
        assert not here.areas[0].any()
        here.nixl.release_xfer_handle(handle)


def begin_own(here, there, mine, its, operation, count, note):
    handle = here.prepare(operation, span(mine, its, count), "there", note)
    here.post(handle, note)
    return handle


def begin_scattered(here, there, mine, its, operation, count, note):
    """Pieces that lie apart, which are gathered at their sender."""
    pairs = [
        (mine[1] + at, 0, its[1] + at, 0, 4096) for at in range(0, count, 8192)
    ]
    handle = here.prepare(operation, pairs, "there", note)
    here.post(handle, note)
    return handle


def begin_theirs(here, there, mine, its, operation, count, note):
    there.begin("transfer", operation, span(its, mine, count), "here", note)


# What is under way, and what happens to the peer before and after the deregistration.
USERS = (begin_own, begin_scattered, begin_theirs)
HARMS = {"well": (None, None), "frozen": (Peer.freeze, Peer.thaw), "killed": (Peer.kill, None)}


def dropped_in_use():
    """Nothing touches memory after deregister_memory has returned: the process would end by it."""
    count = 32 * MIB
    agents = []
    for number, (operation, begin, (name, (harm, heal))) in enumerate(
        itertools.product(("READ", "WRITE"), USERS, HARMS.items())
    ):
        # Every other one travels on channels; peers that are silent are not given up by themselves.
        way = {"TCPX_LINK_BYTES": "0" if number % 2 else str(1 << 40)}
        os.environ.update(way)
        parameters = {"peer_timeout_ms": "60000", "close_timeout_ms": "300"}
        here = Agent("here", parameters=parameters)
        there = Peer("there", parameters=parameters, environment=way)
        mine, its = here.add_pages(count), there.add_area(count)
        here.know(there.metadata())
        there.know(here.metadata())
        here.transfer("READ", span(mine, its, 4096), "there")
        note = b"a note" if number % 4 < 2 else b""
        handle = begin(here, there, mine, its, operation, count, note)
        if harm:
            harm(there)
        if handle and number % 3:
            here.nixl.release_xfer_handle(handle)
            handle = None
        begun = time.monotonic()
        here.drop_area(0)
        assert time.monotonic() - begun < BOUND, (operation, begin, name)
        before = here.read(0, count)
        here.forbid(0)
        if heal:
            heal(there)
        agents.append((here, there, handle, before, (operation, begin.__name__, name)))
    os.environ.pop("TCPX_LINK_BYTES")
    time.sleep(3)
    for here, there, handle, before, case in agents:
        here.allow(0)
        assert here.read(0, len(before)) == before, case
        if case[2] == "well":
            # What the peer began has failed or was through; the next one is refused.
            if case[1] == begin_theirs.__name__:
                has_answered(there)
            fails(case, "REMOTE_DISCONNECT|BACKEND|NOT_FOUND", there.transfer, "WRITE",
                  [(there.address(0), 0, here.areas[0].ctypes.data, 0, 4096)], "here")
            assert here.read(0, len(before)) == before, case
        if handle:
            until("its end", lambda: has_ended(here, handle))  # pylint: disable=cell-var-from-loop
        there.process.kill()
        there.process.join()


def has_answered(peer):
    try:
        peer.answer()
    except AssertionError:
        pass


def has_ended(agent, handle):
    try:
        return agent.state(handle) != "PROC"
    except Exception:  # pylint: disable=broad-except
        return True


def peer_unloaded():
    """A peer that is unloaded while transfers go on, and is known again."""
    count = 64 * MIB
    here, there, mine, its = pair(count)
    with there:
        handle = here.prepare("WRITE", span(mine, its, count), "there")
        here.post(handle)
        metadata = there.metadata()
        here.forget("there")
        fails("the state", "NOT_FOUND", here.state, handle)
        here.nixl.release_xfer_handle(handle)
        fails("a transfer", "NOT_FOUND", here.prepare, "WRITE", span(mine, its, 4096), "there")
        # The peer may go on using this agent.
        there.begin("transfer", "READ", span(its, mine, 4096), "here")
        there.answer()
        here.know(metadata)
        here.transfer("WRITE", span(mine, its, 4096), "there", b"again")
        assert b"again" in there.notifications("here")


def ended_beside_a_frozen_peer():
    """An agent ends in a bounded time though a peer of it is stopped."""
    with Peer("middle") as middle, Peer("stopped") as stopped:
        its = stopped.add_area(MIB)
        mine = middle.add_area(MIB)
        middle.know(stopped.metadata())
        middle.transfer("WRITE", span(mine, its, MIB), "stopped")
        stopped.freeze()
        begin = time.monotonic()
        middle.close()
        assert time.monotonic() - begin < BOUND
        stopped.thaw()
        assert stopped.read(0, 16) == bytes(16)


def many_lives():
    """Peers that come and go leave no descriptors, threads or memory behind."""
    here = Agent("here")
    mine = here.add_area(MIB)
    sizes = []
    for life in range(12):
        with Peer("there") as there:
            its = there.add_area(MIB)
            here.know(there.metadata())
            here.move("WRITE", span(mine, its, MIB), "there", b"", 20)
        forget_if_known(here, "there")
        if life in (3, 11):
            sizes.append(here.resources())
    (descriptors, threads, memory), (later, later_threads, later_memory) = sizes
    assert later <= descriptors + 2, sizes
    assert later_threads <= threads + 1, sizes
    assert later_memory <= memory + 20 * 1024, sizes


def many_loads():
    """A peer that is known and unloaded over and over has one connection all the time."""
    here, there = Agent("here"), Peer("there")
    with there:
        mine, its = here.add_area(4096), there.add_area(4096)
        metadata, sizes = there.metadata(), []
        for turn in range(200):
            here.know(metadata)
            here.transfer("WRITE", span(mine, its, 4096), "there", b"%d" % turn)
            here.forget("there")
            if turn in (20, 199):
                sizes.append((here.resources()[:2], there.resources()[:2]))
        assert len(there.notifications("here", 200)) == 200
        assert sizes[0] == sizes[1], sizes


def absent_agents(metadata, count):
    """Returns metadata of this many absent agents, made from that of one that is there."""
    begin = metadata.index(b"TCPXINFO")
    (body,) = struct.unpack_from("<H", metadata, begin + 10)
    for number in range(count):
        info = bytearray(metadata[begin : begin + 12 + body])
        struct.pack_into("<Q", info, 12, number)
        digest = hashlib.sha256(info).digest()[:8]
        yield metadata[:begin] + bytes(info) + digest + metadata[begin + 12 + body + 8 :]


def many_absent_agents():
    """No memory is held for agents that were known once."""
    here, there = Agent("here"), Agent("there")
    there.add_area(4096)
    sizes = []
    for number, metadata in enumerate(absent_agents(there.metadata(), 30_000)):
        here.know(metadata)
        here.forget("there")
        if number in (10_000, 29_999):
            sizes.append(here.resources()[2])
    # 20,000 connection infos take several times that.
    assert sizes[1] <= sizes[0] + 2 * 1024, sizes


if __name__ == "__main__":
    run([
        killed, frozen, initiator_harmed, continued_after_freeze, cut_off, restarted,
        deregistered_by_peer, stale,
        dropped_here, dropped_in_use, peer_unloaded,
        ended_beside_a_frozen_peer, many_lives, many_loads, many_absent_agents,
    ])
