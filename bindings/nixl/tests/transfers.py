"""What an agent does every day: transfers, notifications, other agents' memory."""

import random
import threading

from agents import DEADLINE, LOCKING, Agent, Peer, pattern, run, until

MIB = 1 << 20


def pair(count, config=None, environment=None):
    """An agent here and one elsewhere, with an area each, which know each other."""
    here, there = Agent("here", config), Peer("there", config, environment=environment)
    here_area, there_area = here.add_area(count), there.add_area(count)
    assert here.know(there.metadata()) == "there"
    assert there.know(here.metadata()) == "here"
    return here, there, here_area, there_area


def span(here_area, there_area, count, offset=0):
    """One pair of ranges at the same offset of both areas."""
    return [(here_area[1] + offset, here_area[3], there_area[1] + offset, there_area[3], count)]


def write_and_read():
    """In every way of making progress and of locking."""
    modes = [{"enable_prog_thread": thread} for thread in (False, True)]
    modes += LOCKING.values()
    for mode in modes:
        here, there, mine, its = pair(MIB, mode)
        with there:
            here.fill(0, 1)
            here.transfer("WRITE", span(mine, its, MIB // 2), "there", b"half\0way")
            assert there.notifications("here") == [b"half\0way"]
            assert there.read(0, MIB) == bytes(pattern(1, MIB)[: MIB // 2]) + bytes(MIB // 2)
            there.fill(0, 2, MIB // 2)
            here.transfer("READ", span(mine, its, MIB // 2, MIB // 2), "there", b"")
            assert here.is_filled(0, 2, MIB // 2)


def sizes():
    """From one byte to many, at odd offsets; the bytes beside them stay."""
    limit = 8 * MIB
    here, there, mine, its = pair(limit)
    with there:
        for i, count in enumerate([1, 7, 4095, 4097, 65535, 65537, 524289, MIB + 3, 6 * MIB + 1]):
            offset = 1 + 2 * i
            for operation in ("WRITE", "READ"):
                seed = 10 + i
                (here if operation == "WRITE" else there).fill(0, seed, offset, count)
                (there if operation == "WRITE" else here).fill(0, 1)
                here.transfer(operation, span(mine, its, count, offset), "there")
                target = there if operation == "WRITE" else here
                assert target.is_filled(0, seed, offset, count), (operation, count)
                edge = bytes(pattern(1, limit))
                after = target.read(0, limit)
                assert after[:offset] == edge[:offset], (operation, count)
                assert after[offset + count :] == edge[offset + count :], (operation, count)


def descriptors():
    """10,000 of one transfer: permuted, strided, and of odd sizes."""
    blocks, block = 10_000, 512
    here, there, mine, its = pair(blocks * block)
    order = list(range(blocks))
    random.Random(1).shuffle(order)
    with there:
        for name, pairs in {
            "permuted": [(i * block, to * block, block) for i, to in enumerate(order)],
            "strided": [(i * block, i * block, 96) for i in range(blocks)],
            "odd": [(i * block + 1, to * block + 3, 1 + i % 501) for i, to in enumerate(order)],
        }.items():
            here.fill(0, 3)
            there.fill(0, 4)
            expected = pattern(4, blocks * block)
            for source, target, count in pairs:
                expected[target : target + count] = here.areas[0][source : source + count]
            ranges = [(mine[1] + source, 0, its[1] + to, 0, n) for source, to, n in pairs]
            # Without a notification, and once more with one.
            handle = here.prepare("WRITE", ranges, "there")
            here.post(handle)
            here.finish(handle)
            assert there.read(0, blocks * block) == bytes(expected), name
            there.fill(0, 4)
            here.post(handle, name.encode())
            here.finish(handle)
            assert there.notifications("here") == [name.encode()]
            here.nixl.release_xfer_handle(handle)
            here.fill(0, 5)
            back = here.add_area(blocks * block)
            here.transfer("READ", span(back, its, blocks * block), "there")
            assert (here.areas[back[0]] == expected).all(), name
            here.drop_area(back[0])


def prepared_lists():
    """Lists that are made once, and transfers that take any part of them, as vLLM does it."""
    blocks, block = 256, 4096
    here, there, mine, its = pair(blocks * block)
    with there:
        there.fill(0, 6)
        agent = here.nixl
        local = [(mine[1] + i * block, block, 0) for i in range(blocks)]
        remote = [(its[1] + i * block, block, 0) for i in range(blocks)]
        ours = agent.prep_xfer_dlist("", local, "DRAM", backends=["TCPX"])
        theirs = agent.prep_xfer_dlist("there", remote, "DRAM", backends=["TCPX"])
        chosen = list(range(0, blocks, 3))
        handle = agent.make_prepped_xfer("READ", ours, chosen, theirs, chosen[::-1], b"took")
        agent.transfer(handle)
        here.finish(handle)
        assert there.notifications("here") == [b"took"]
        source = pattern(6, blocks * block).reshape(blocks, block)
        target = here.areas[0].reshape(blocks, block)
        for to, of in zip(chosen, chosen[::-1]):
            assert (target[to] == source[of]).all()
        untouched = [i for i in range(blocks) if i % 3]
        assert not target[untouched].any()
        agent.release_xfer_handle(handle)


def posted_again():
    """One transfer many times, without a notification and with; NIXL repeats the last one."""
    here, there, mine, its = pair(MIB)
    with there:
        handle = here.prepare("WRITE", span(mine, its, MIB), "there")
        for i, notification in enumerate([b"", b"a", b"", b"b" * 4096]):
            here.fill(0, 20 + i)
            here.post(handle, notification)
            here.finish(handle)
            assert there.is_filled(0, 20 + i)
        assert there.notifications("here", 3) == [b"a", b"a", b"b" * 4096]
        # While it is under way it is refused, and goes on.
        until("a post that is too early", lambda: is_refused_twice(here, handle))
        here.finish(handle)
        here.nixl.release_xfer_handle(handle)


def is_refused_twice(here, handle):
    """Whether the second of two posts came while the first was under way."""
    here.finish(handle)
    here.post(handle)
    try:
        here.post(handle)
    except Exception as error:  # pylint: disable=broad-except
        assert "REPOST" in str(error), error
        return True
    return False


def notifications():
    """Empty, binary, many, long, to a program that does not look; and too long."""
    here, there, _, _ = pair(4096)
    with there:
        for message in (b"", b"\0\0", b"x" * 60_000):
            here.notify("there", message)
            assert there.notifications("here") == [message]
        many = [f"number {i}".encode() for i in range(20_000)]
        for message in many:
            here.notify("there", message)
        assert there.notifications("here", len(many)) == many
        try:
            here.notify("there", b"x" * 65_536)
            raise AssertionError("a notification that is too long went")
        except Exception as error:  # pylint: disable=broad-except
            assert "INVALID_PARAM" in str(error), error


def visible_before_done():
    """When a write is done, its notification is there and so are its bytes: no waiting for it."""
    here, there, mine, its = pair(MIB)
    with there:
        for i in range(50):
            here.fill(0, 100 + i, 0, 4096)
            here.transfer("WRITE", span(mine, its, 4096 if i % 2 else MIB), "there", b"%d" % i)
            assert there.notifications("here", 1, 0.001) == [b"%d" % i]


def passive_target():
    """The program of the target sleeps, and does not know the initiator."""
    here, there = Agent("here"), Peer("there")
    with there:
        mine, its = here.add_area(4 * MIB), there.add_area(4 * MIB)
        here.know(there.metadata())
        there.begin("sleep", 5)
        here.fill(0, 7)
        here.transfer("WRITE", span(mine, its, 4 * MIB), "there", b"while you slept")
        here.fill(0, 8)
        here.transfer("READ", span(mine, its, 4 * MIB), "there")
        assert here.is_filled(0, 7)
        here.notify("there", b"more")
        there.answer()
        assert sorted(there.notifications("here", 2)) == [b"more", b"while you slept"]


def both_ask():
    """The programs of both ends ask in a loop, and neither keeps the other from going on."""
    times = 200
    here, there, mine, its = pair(MIB)
    with there:
        there.begin("notifications", "here", 2 * times)
        here.fill(0, 14)
        for operation in ("WRITE", "READ"):
            here.move(operation, span(mine, its, MIB), "there", operation.encode(), times)
        assert there.answer() == [b"WRITE"] * times + [b"READ"] * times
        assert there.is_filled(0, 14)


def more_memory():
    """Metadata is loaded again, over what was known, when the peer has registered more."""
    here, there, mine, its = pair(4096)
    with there:
        handle = here.prepare("WRITE", span(mine, its, 4096), "there")
        for seed in (15, 16):
            new = there.add_area(4096)
            here.know(there.metadata())
            here.fill(0, seed)
            here.transfer("WRITE", span(mine, new, 4096), "there")
            assert there.is_filled(new[0], seed)
        # What was prepared with the first metadata still holds.
        here.post(handle)
        here.finish(handle)
        assert there.is_filled(its[0], 16)
        here.nixl.release_xfer_handle(handle)


def to_itself():
    """An agent is a peer of its own."""
    here = Agent("here")
    source, target = here.add_area(MIB), here.add_area(MIB)
    here.fill(0, 9)
    here.transfer("WRITE", span(source, target, MIB), "here", b"done")
    assert here.is_filled(1, 9)
    assert here.notifications("here") == [b"done"]
    here.notify("here", b"note")
    assert here.notifications("here") == [b"note"]
    here.fill(0, 10)
    here.transfer("READ", span(target, source, MIB), "here")
    assert here.is_filled(1, 10)


def two_in_one_process():
    """Two agents of a process do not share state; each has its own notifications."""
    one, two = Agent("one"), Agent("two")
    ones, twos = one.add_area(MIB), two.add_area(MIB)
    one.know(two.metadata())
    two.know(one.metadata())
    one.fill(0, 11)
    one.transfer("WRITE", span(ones, twos, MIB), "two", b"from one")
    assert two.is_filled(0, 11)
    two.notify("one", b"from two")
    assert two.notifications("one") == [b"from one"]
    assert one.notifications("two") == [b"from two"]


def both_at_once():
    """Two agents that have never met begin at the same time, each with the other."""
    for life in range(3):
        one, two = Peer("one"), Peer("two")
        with one, two:
            ones, twos = one.add_area(MIB), two.add_area(MIB)
            one.know(two.metadata())
            two.know(one.metadata())
            one.fill(0, 200 + life, 0, MIB // 2)
            two.fill(0, 300 + life, MIB // 2, MIB // 2)
            half = MIB // 2
            for first, its, second, theirs, offset in (
                (one, ones, two, twos, 0), (two, twos, one, ones, half)
            ):
                first.begin("transfer", "WRITE", span(its, theirs, half, offset), second.name,
                            b"from " + first.name.encode())
            one.answer()
            two.answer()
            assert two.is_filled(0, 200 + life, 0, half)
            assert one.is_filled(0, 300 + life, half, half)
            assert two.notifications("one") == [b"from one"]
            assert one.notifications("two") == [b"from two"]


def each_to_each():
    """Eight agents, which all begin at once."""
    count, area = 8, 65536
    peers = [Peer(f"agent {i}") for i in range(count)]
    areas = [peer.add_area(area * count) for peer in peers]
    for i, peer in enumerate(peers):
        peer.fill(0, 30 + i, area * i, area)
        for other in peers:
            if other is not peer:
                peer.know(other.metadata())
    for i, peer in enumerate(peers):
        for j, other in enumerate(peers):
            if i != j:
                peer.begin("transfer", "WRITE", span(areas[i], areas[j], area, area * i),
                           other.name, b"%d to %d" % (i, j))
    for i, peer in enumerate(peers):
        for j in range(count):
            if i != j:
                peer.answer()
    for j, other in enumerate(peers):
        for i, peer in enumerate(peers):
            assert other.is_filled(0, 30 + i, area * i, area), (i, j)
            if i != j:
                assert other.notifications(peer.name) == [b"%d to %d" % (i, j)]
    for peer in peers:
        peer.close()


def many_threads():
    """With RW locking: threads post and check side by side."""
    threads, count = 8, 128 * 1024
    if "RW" not in LOCKING:
        print("skipped: this NIXL has no locking to choose")
        return
    here, there, mine, its = pair(threads * count, LOCKING["RW"])
    failures = []

    def work(number):
        try:
            ranges = span(mine, its, count, number * count)
            handle = here.prepare("WRITE", ranges, "there")
            for i in range(30):
                here.post(handle, b"%d %d" % (number, i))
                here.finish(handle)
            here.nixl.release_xfer_handle(handle)
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    with there:
        here.fill(0, 12)
        workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(DEADLINE)
        assert not failures, failures
        assert there.is_filled(0, 12)
        expected = sorted(b"%d %d" % (n, i) for n in range(threads) for i in range(30))
        assert sorted(there.notifications("here", threads * 30)) == expected


def released_while_active():
    """Handles that are given up leave nothing behind."""
    here, there, mine, its = pair(64 * MIB)
    with there:
        # Bytes of theirs may come after the release. So it takes other memory to see that the
        # next transfer is right.
        given_up = span(mine, its, 63 * MIB, MIB)
        for operation in ("WRITE", "READ"):
            for _ in range(10):
                handle = here.prepare(operation, given_up, "there", b"late")
                here.post(handle)
                here.nixl.release_xfer_handle(handle)
        here.fill(0, 13, 0, MIB)
        here.transfer("WRITE", span(mine, its, MIB), "there", b"after")
        assert there.is_filled(0, 13, 0, MIB)
        until("the last", lambda: b"after" in there.notifications("here"))


def telemetry():
    """What NIXL measures of a transfer, which vLLM records of each, and which backend it took."""
    here, there, mine, its = pair(MIB, {"capture_telemetry": True})
    with there:
        for operation in ("WRITE", "READ"):
            halves = [span(mine, its, MIB // 2, at)[0] for at in (0, MIB // 2)]
            handle = here.prepare(operation, halves, "there")
            here.post(handle)
            here.finish(handle)
            seen = here.nixl.get_xfer_telemetry(handle)
            assert seen.totalBytes == MIB and seen.descCount in (1, 2), seen
            assert seen.xferDuration >= seen.postDuration >= 0 and seen.xferDuration > 0, seen
            assert here.nixl.query_xfer_backend(handle) == "TCPX"
            here.nixl.release_xfer_handle(handle)


if __name__ == "__main__":
    run([
        write_and_read, sizes, descriptors, prepared_lists, posted_again, notifications,
        visible_before_done, passive_target, both_ask, more_memory, to_itself, two_in_one_process,
        both_at_once, each_to_each,
        many_threads, released_while_active, telemetry,
    ])
