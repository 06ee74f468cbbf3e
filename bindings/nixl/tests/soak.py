"""Everything that agents do, for as long as is asked for (default: 20 s), with flat memory.

usage: soak.py [SECONDS]
"""

import random
import sys
import time

from agents import Agent, Peer, run
from ends import forget_if_known
from transfers import MIB, span

AREA = 8 * MIB
# What a process may grow by from a third of the time to its end: the allocator's own doing.
SLACK_KIB = 24 * 1024
SECONDS = 20


def turn(random_, here, there, areas, number):
    """A few transfers of all kinds, and what is made and released with them."""
    mine, its = areas
    seed = random_.randrange(1 << 30)
    count = random_.choice([1, 4096, 65_537, MIB, AREA])
    offset = random_.randrange(AREA - count + 1)
    here.fill(0, seed, offset, count)
    here.transfer("WRITE", span(mine, its, count, offset), "there", b"%d" % number)
    assert there.notifications("here") == [b"%d" % number]
    assert there.is_filled(0, seed, offset, count)
    # Of many descriptors, back into memory that is registered for this alone.
    blocks, block = 1_000, 4_096
    back, address, *_ = here.add_area(blocks * block)
    order = random_.sample(range(blocks), blocks)
    pairs = [(address + i * block, 0, its[1] + to * block, 0, block - i % 7)
             for i, to in enumerate(order)]
    here.transfer("READ", pairs, "there")
    there_has = memoryview(there.read(0, blocks * block))
    for i in random_.sample(range(blocks), 20):
        to = order[i] * block
        assert here.read(back, block - i % 7, i * block) == there_has[to : to + block - i % 7]
    here.drop_area(back)
    here.areas.pop()
    here.registrations.pop()
    # One that is given up, one that is posted again and again, and notifications. Bytes of the
    # first may come after its release: into memory that the next turn does not look at.
    handle = here.prepare("WRITE", span(mine, its, AREA, AREA), "there")
    here.post(handle)
    here.nixl.release_xfer_handle(handle)
    here.move("READ", span(mine, its, 4096), "there", b"", 50)
    messages = [b"%d of %d" % (i, number) for i in range(50)]
    for message in messages:
        there.notify("here", message)
    assert here.notifications("there", len(messages)) == messages
    if number % 20 == 19:
        # It is forgotten, and known again.
        forget_if_known(here, "there")
        here.know(there.metadata())


def soak():
    """Memory, threads and descriptors of both ends at a third of the time, and at its end."""
    random_, sizes = random.Random(7), []
    here, there = Agent("here"), Peer("there")
    with there:
        areas = here.add_area(2 * AREA), there.add_area(2 * AREA)
        # No page of them is new later.
        for agent in (here, there):
            agent.fill(0, 0)
        here.know(there.metadata())
        there.know(here.metadata())
        begin = time.monotonic()
        turns = 0
        while time.monotonic() - begin < SECONDS or turns < 30:
            turn(random_, here, there, areas, turns)
            turns += 1
            if not sizes and time.monotonic() - begin >= SECONDS / 3 and turns >= 10:
                sizes.append((here.resources(), there.resources()))
        sizes.append((here.resources(), there.resources()))
    print(f"  {turns} turns; descriptors, threads, KiB of (here, there): {sizes}", flush=True)
    for before, after in zip(*sizes):
        assert after[0] <= before[0], sizes
        assert after[1] <= before[1], sizes
        assert after[2] <= before[2] + SLACK_KIB, sizes


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SECONDS = float(sys.argv.pop(1))
    run([soak])
