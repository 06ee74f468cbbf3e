#!/usr/bin/env python3
"""UCX over TCP, driven by NIXL, between two processes of this machine, over host memory.

usage: nixl_ucx.py trip|WRITE|READ BYTES ITERATIONS

trip: half a round trip: a WRITE with a notification, answered by another. WRITE, READ: a stream of
messages, several outstanding. Prints one JSON object. Both processes poll, as UCX wants it, and have
no progress thread, which would spin beside them.
"""

import json
import multiprocessing
import statistics
import sys
import time

import numpy
from nixl._api import nixl_agent, nixl_agent_config

# Outstanding messages of a stream, and how many of them are not measured.
DEPTH = 4
WARMUP = 5
PATIENCE_S = 60


class End:
    """One of the two agents, with memory to send from and to receive into."""

    def __init__(self, name, other, pipe, size):
        self.name, self.other, self.pipe, self.size = name, other, pipe, size
        self.agent = nixl_agent(name, nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
        self.sent = numpy.full(size, ord(name[0]), dtype=numpy.uint8)
        self.received = numpy.zeros(size, dtype=numpy.uint8)
        areas = [(area.ctypes.data, size) for area in (self.sent, self.received)]
        self.agent.register_memory([(*area, 0, "") for area in areas], "DRAM")
        pipe.send((self.agent.get_agent_metadata(), areas))
        metadata, self.remote_areas = pipe.recv()
        self.agent.add_remote_agent(metadata)
        self.notifications = 0

    def handle(self, operation):
        """A WRITE from `sent` to the other's `received`, or a READ of the other's `sent` into ours."""
        is_write = operation == "WRITE"
        local = (self.sent if is_write else self.received).ctypes.data
        remote = self.remote_areas[1 if is_write else 0][0]
        descriptors = [self.agent.get_xfer_descs([(at, self.size, 0)], "DRAM") for at in (local, remote)]
        return self.agent.initialize_xfer(operation, *descriptors, self.other)

    def post(self, handle, notification=b""):
        if self.agent.transfer(handle, notification) == "ERR":
            raise RuntimeError("posting a transfer failed")

    def is_done(self, handle):
        state = self.agent.check_xfer_state(handle)
        if state == "ERR":
            raise RuntimeError("a transfer failed")
        return state == "DONE"

    def poll_until(self, is_over):
        """Polls, which is what makes UCX go on, until `is_over` says so."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not is_over():
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"{self.name}: nothing happened for {PATIENCE_S} s")

    def wait_done(self, handle):
        self.poll_until(lambda: self.is_done(handle))

    def wait_notified(self, count):
        def is_notified():
            self.notifications += len(self.agent.get_new_notifs().get(self.other, []))
            return self.notifications >= count

        self.poll_until(is_notified)

    def check(self):
        if not (self.received == ord(self.other[0])).all():
            raise RuntimeError("wrong bytes arrived")


def trips(end, iterations):
    """Round trips as the first end sees them; half of each, in seconds."""
    handle, halves = end.handle("WRITE"), []
    for trip in range(1, WARMUP + iterations + 1):
        start = time.perf_counter()
        end.post(handle, b"ping")
        end.wait_done(handle)
        end.wait_notified(trip)
        halves.append((time.perf_counter() - start) / 2)
    end.check()
    return halves[WARMUP:]


def answer_trips(end, iterations):
    handle = end.handle("WRITE")
    for trip in range(1, WARMUP + iterations + 1):
        end.wait_notified(trip)
        end.post(handle, b"pong")
        end.wait_done(handle)
    end.check()


def stream(end, operation, iterations):
    """Seconds for so many messages, of which a few are always outstanding."""
    handles = [end.handle(operation) for _ in range(DEPTH)]
    for handle in handles:
        end.post(handle)
        end.wait_done(handle)
    start = time.perf_counter()
    for index in range(iterations):
        handle = handles[index % DEPTH]
        if index >= DEPTH:
            end.wait_done(handle)
        end.post(handle)
    for handle in handles[: min(DEPTH, iterations)]:
        end.wait_done(handle)
    elapsed = time.perf_counter() - start
    end.agent.send_notif(end.other, b"over")
    if operation == "READ":
        end.check()
    end.poll_until(end.pipe.poll)
    return elapsed


def serve_stream(end, operation):
    """UCX serves only while it is polled."""
    end.wait_notified(1)
    if operation == "WRITE":
        end.check()
    end.pipe.send("over")


def second(pipe, what, size, iterations):
    end = End("second", "first", pipe, size)
    if what == "trip":
        answer_trips(end, iterations)
    else:
        serve_stream(end, what)
    # The first ends while this one is still there.
    pipe.recv()


def main():
    what, size, iterations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    context = multiprocessing.get_context("spawn")
    pipe, other_pipe = context.Pipe()
    process = context.Process(target=second, args=(other_pipe, what, size, iterations), daemon=True)
    process.start()
    end = End("first", "second", pipe, size)
    if what == "trip":
        figures = {"half_us": statistics.median(trips(end, iterations)) * 1e6}
    else:
        figures = {"gb_per_s": size * iterations / stream(end, what, iterations) / 1e9}
    print(json.dumps({"what": what, "size_bytes": size, **figures}), flush=True)
    pipe.send("over")
    process.join(PATIENCE_S)


if __name__ == "__main__":
    main()
