"""Processes of tests: python children.py FUNCTION [ARGUMENT...]"""

import asyncio
import base64
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import warnings

import tcpx


def say(*words):
    print(" ".join(base64.b64encode(word).decode() for word in words), flush=True)


def hear():
    return [base64.b64decode(word) for word in sys.stdin.readline().split()]


def serve(nbytes):
    """Exports zeros, and says what they are at the end of each line that it hears."""
    with tcpx.Agent("server") as agent:
        memory = bytearray(int(nbytes))
        say(agent.address, agent.export(memory).descriptor)
        while hear():
            say(bytes(memory))


def echo(nbytes):
    """Sends back what it receives, as often as it receives."""
    memory = bytearray(int(nbytes))

    async def answer():
        async with tcpx.Agent("server") as agent:
            say(agent.address)
            async for note in agent.notifications():
                if note.data == b"stop":
                    break
                await agent.recv(note.peer, memory, tag=1)
                await agent.send(note.peer, memory, tag=2)

    asyncio.run(answer())
    # The peer says goodbye first.
    hear()


def wait_for_ever(way):
    """Waits for a message that does not come, until it is interrupted."""
    address, = hear()
    agent = tcpx.Agent("client")
    peer = agent.add(address)
    agent.connect(peer).wait(30)
    try:
        say(b"waits")
        if way == "wait":
            agent.recv(peer, bytearray(8), tag=9).wait()
        elif way == "note":
            agent.wait_notification()
        else:
            asyncio.run(forever(agent, peer))
    except KeyboardInterrupt:
        say(b"interrupted")
        agent.close()


async def forever(agent, peer):
    await agent.recv(peer, bytearray(8), tag=9)


def wait_to_the_end(receive):
    with contextlib.suppress(tcpx.Closed):
        receive.wait()


def leave():
    """Ends with reads, receives and a thread under way, and closes nothing."""
    address, descriptor = hear()
    agent = tcpx.Agent("client")
    peer = agent.add(address)
    memory = [bytearray(1 << 20) for _ in range(8)]
    nbytes = tcpx.Remote(descriptor).nbytes
    big = agent.export(bytearray(nbytes))
    agent.read(big, descriptor).wait(30)
    receive = agent.recv(peer, bytearray(8), tag=7)
    threading.Thread(target=wait_to_the_end, args=(receive,), daemon=True).start()
    say(b"leaves")
    for each in memory:
        agent.recv(peer, each, tag=8)
    for _ in range(8):
        agent.read(big, descriptor)


def fork():
    """Forks with an agent, and says what the child met."""
    address, descriptor = hear()
    agent = tcpx.Agent("client")
    agent.add(address)
    here = bytearray(tcpx.Remote(descriptor).nbytes)
    agent.read(here, descriptor).wait(30)
    source, sink = os.pipe()
    # That other threads go missing is what this is about.
    warnings.simplefilter("ignore", DeprecationWarning)
    child = os.fork()
    if child == 0:
        met = []
        calls = (
            lambda: agent.read(here, descriptor).wait(),
            lambda: agent.notify("server", b""),
            lambda: agent.stats(),
            lambda: tcpx.Agent("child"),
        )
        for call in calls:
            try:
                call()
            except tcpx.Error as error:
                met.append(f"{error.diagnosis}")
        os.write(sink, " ".join(met).encode())
        # As a child that ends like any program.
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    agent.read(here, descriptor).wait(30)
    agent.close()
    say(os.read(source, 1000), str(status).encode())


def spawned(address, descriptor, sink):
    with tcpx.Agent("spawned") as agent:
        agent.add(address)
        here = bytearray(tcpx.Remote(descriptor).nbytes)
        agent.read(here, descriptor).wait(30)
        sink.put(bytes(here))


def spawn():
    """Has a process of multiprocessing read memory of this one, whose agent is in use."""
    context = multiprocessing.get_context("spawn")
    with tcpx.Agent("parent") as agent:
        buffer = agent.export(bytearray(b"from the parent"))
        sink = context.Queue()
        process = context.Process(
            target=spawned, args=(agent.address, buffer.descriptor, sink), daemon=True
        )
        process.start()
        read = sink.get(timeout=60)
        process.join(60)
        say(read, str(process.exitcode).encode())


if __name__ == "__main__":
    # A shell has what it starts in the background ignore interrupts, and that is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    globals()[sys.argv[1]](*sys.argv[2:])
