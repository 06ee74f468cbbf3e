"""Everything that agents do, over and over: python soak.py SECONDS

Memory, threads, descriptors and Python's objects must stay as they are.
"""

import asyncio
import gc
import os
import sys
import time

import tcpx

SIZE = 64 << 10


def resident():
    """KiB of memory that this process has to itself."""
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


def state():
    """Threads, descriptors and objects of Python."""
    gc.collect()
    counts = [len(os.listdir(f"/proc/self/{folder}")) for folder in ("task", "fd")]
    return (*counts, len(gc.get_objects()))


async def with_a_peer(here, there, peer):
    """Operations of every kind, and some that fail or are given up."""
    memory = bytearray(SIZE)
    with there.export(memory) as exported, here.export(bytearray(SIZE)) as buffer:
        remote = tcpx.Remote(exported.descriptor)
        for _ in range(20):
            await here.write(buffer, remote, notify=b"written")
            await here.read(buffer, remote)
            await here.read(bytearray(100), remote[0:100])
            await anext(there.notifications())
            send = here.send(peer, memory[:100], tag=1)
            await there.recv(here.name, bytearray(100), tag=1)
            await send
        given_up = here.recv(peer, bytearray(8), tag=2)
        task = asyncio.ensure_future(awaited(given_up))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(awaited(given_up), return_exceptions=True)
    await asyncio.gather(awaited(here.read(bytearray(SIZE), remote)), return_exceptions=True)
    here.write(memory, there.export(bytearray(SIZE)).descriptor)


async def awaited(transfer):
    await transfer


async def with_agents():
    """The same with agents of its own."""
    async with tcpx.Agent("new-here") as here, tcpx.Agent("new-there") as there:
        await with_a_peer(here, there, here.add(there.address))


def main(seconds):
    here, there = tcpx.Agent("here"), tcpx.Agent("there")
    peer = here.add(there.address)
    here.connect(peer).wait(60)
    began = time.monotonic()

    def turn():
        asyncio.run(with_a_peer(here, there, peer))
        for buffer in list(there._exports):
            buffer.close()
        asyncio.run(with_agents())

    warm = max(seconds / 4, 2)
    while time.monotonic() < began + warm:
        turn()
    states, turns = [(*state(), resident())], 0
    for half in (1, 2):
        while time.monotonic() < began + warm + seconds * half / 2:
            turn()
            turns += 1
        states.append((*state(), resident()))
    here.close()
    there.close()
    before, middle, after = states
    print(f"{turns} turns: threads, descriptors, objects, KiB {before} -> {middle} -> {after}")
    # What an agent makes once, when it first needs it, grows one of the halves, and a leak both.
    threads, descriptors, objects, memory = (
        min(second - first, third - second) for first, second, third in zip(*states)
    )
    assert threads <= 0 and descriptors <= 0, "threads or descriptors were left over"
    assert objects < max(25, turns / 8), "objects of Python were left over"
    assert memory < 2048 + before[3] // 40, "memory was left over"


if __name__ == "__main__":
    main(float(sys.argv[1]))
