"""Reads from another process, awaited, waited for, and by the native module alone, in turns.

    python bindings/python/benches/reads.py [SECONDS]

It prints the median time of each way and size, and how fast Python's ways are beside the native
module, which is the library in Rust and the crossing from Python. SECONDS is the time for each
size.
"""

import asyncio
import statistics
import subprocess
import sys
import time

import tcpx

SIZES = [4 << 10, 64 << 10, 1 << 20, 64 << 20]
WAYS = ["native", "wait", "await"]
PEER = """
import sys, tcpx
with tcpx.Agent("peer") as agent, agent.export(bytearray(64 << 20)) as buffer:
    print(agent.address.hex(), buffer.descriptor.hex(), flush=True)
    sys.stdin.read()
"""


async def once(way, agent, buffer, local, remote):
    """Returns the time of one read, in microseconds."""
    started_at = time.perf_counter()
    if way == "await":
        await agent.read(buffer, remote)
    elif way == "wait":
        agent.read(buffer, remote).wait(60)
    else:
        remotes = [remote_range(remote)]
        agent._session.post_access(True, "peer", local, remotes, None, None, 0).wait(60)
    return (time.perf_counter() - started_at) * 1e6


def remote_range(remote):
    return remote._key, remote.offset, remote.nbytes


async def measure(agent, descriptor, nbytes, seconds):
    """Returns the median time of each way."""
    with agent.export(bytearray(nbytes)) as buffer:
        local, remote = [(buffer._memory, 0, nbytes)], tcpx.Remote(descriptor)[:nbytes]
        times = {way: [] for way in WAYS}
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(times["await"]) < 10:
            for way in WAYS:
                times[way].append(await once(way, agent, buffer, local, remote))
        # The first ones make the channels.
        return {way: statistics.median(taken[2:]) for way, taken in times.items()}


async def main(seconds):
    command = [sys.executable, "-c", PEER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as peer:
        address, descriptor = map(bytes.fromhex, peer.stdout.readline().split())
        with tcpx.Agent("here") as agent:
            agent.connect(agent.add(address)).wait(60)
            print(f"{'bytes':>10} {'way':>7} {'median µs':>10} {'GB/s':>7} {'of native':>10}")
            for nbytes in SIZES:
                medians = await measure(agent, descriptor, nbytes, seconds)
                for way, median in medians.items():
                    speed, ratio = nbytes / median / 1e3, medians["native"] / median
                    print(f"{nbytes:>10} {way:>7} {median:>10.1f} {speed:>7.2f} {ratio:>10.2f}")
        peer.stdin.close()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0))
