"""Moves a tensor between two processes of this machine, and prints the speed.

python -m tcpx.demo [--bytes N] [--seconds S]

The tensor is one of torch or numpy where they are installed, and a bytearray elsewhere. A process
of its own has the other tensor; this one writes it, reads it back, and compares.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import tcpx


def make(nbytes: int) -> tuple[str, object, memoryview]:
    """Returns the kind of a new tensor, the tensor, and its bytes."""
    try:
        import numpy
    except ImportError:
        tensor = bytearray(nbytes)
        return "bytearray", tensor, memoryview(tensor)
    array = numpy.zeros(nbytes, dtype=numpy.uint8)
    return "numpy.ndarray", array, memoryview(array)


def serve(nbytes: int) -> None:
    """Owns the other tensor until its standard input ends."""
    with tcpx.Agent("demo-server") as agent:
        buffer = agent.export(make(nbytes)[1])
        print(agent.address.hex(), buffer.descriptor.hex(), flush=True)
        sys.stdin.read()


async def speed(move: Callable[[], Awaitable[None]], nbytes: int, seconds: float) -> float:
    """Returns how many GB move in a second."""
    await move()
    moves, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        await move()
        moves += 1
    return moves * nbytes / (time.perf_counter() - began) / 1e9


async def measure(address: bytes, descriptor: bytes, nbytes: int, seconds: float) -> None:
    """Writes the other process's tensor, and reads it."""
    async with tcpx.Agent("demo-client") as agent:
        agent.add(address)
        kind, tensor, view = make(nbytes)
        pattern = bytes(range(256)) * (nbytes // 256 + 1)
        view[:] = pattern[:nbytes]
        buffer = agent.export(tensor)
        print(f"{nbytes} bytes, {kind}, between two processes")
        for name, move in (("write", agent.write), ("read", agent.read)):
            rate = await speed(functools.partial(move, buffer, descriptor), nbytes, seconds)
            print(f"{name}: {rate:.2f} GB/s")
        view[:] = bytes(nbytes)
        await agent.read(buffer, descriptor)
        if view.tobytes() != pattern[:nbytes]:
            raise SystemExit("error: what came back is not what was written")
        print("every byte came back as it was written")
        buffer.close()


def main() -> None:
    """Runs one of the two processes."""
    parser = argparse.ArgumentParser(prog="python -m tcpx.demo", description=__doc__)
    parser.add_argument("--bytes", type=int, default=64 << 20, help="size of the tensor (64 MiB)")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each direction (1)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.bytes)
        return
    command = [sys.executable, "-m", "tcpx.demo", "--serve", "--bytes", str(options.bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        if server.stdout is None:
            raise SystemExit("error: the other process has no output")
        words = server.stdout.readline().split()
        address, descriptor = (bytes.fromhex(word.decode()) for word in words)
        asyncio.run(measure(address, descriptor, options.bytes, options.seconds))


if __name__ == "__main__":
    main()
