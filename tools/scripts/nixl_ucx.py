#!/usr/bin/env python3
"""UCX over TCP, driven by NIXL, between two processes of this machine, over host memory.

usage: nixl_ucx.py trip|notify|WRITE|READ BYTES ITERATIONS [DEPTH]

trip: half a round trip: a WRITE with a notification, answered by another from where it landed. Trips
come in turns of fresh bytes, which are verified after the turn, as `tcpx perf --latency` does it.
notify: half a round trip of notifications. WRITE, READ: a stream of messages, DEPTH of them outstanding
(default: 4), each with memory of its own; with a depth of 1 the median time of one, each in a place of
its own, in turns of fresh bytes, as `tcpx perf --op write --latency` does it. Prints one JSON object. Both processes poll, as UCX wants it, and have no progress thread, which would spin beside them.
"""

import json
import multiprocessing
import statistics
import sys
import time

import numpy
from nixl._api import nixl_agent, nixl_agent_config

# Outstanding messages of a stream.
DEPTH = 4
# What is not measured: round trips, and messages that are waited for one by one.
WARMUP = 5
# The turns of `tcpx perf --latency`: trips, bytes, and places at the end that answers.
TURN, TURN_BYTES, SECOND_PLACES = 50, 32 << 20, 4
PATIENCE_S = 60


class End:
    """One of the two agents, with memory to send from and to receive into."""

    def __init__(self, name, other, pipe, size, places=1):
        self.name, self.other, self.pipe, self.size = name, other, pipe, size
        self.agent = nixl_agent(name, nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
        self.sent = numpy.full(places * size, ord(name[0]), dtype=numpy.uint8)
        self.received = numpy.zeros(places * size, dtype=numpy.uint8)
        areas = [(area.ctypes.data, area.size) for area in (self.sent, self.received)]
        self.agent.register_memory([(*area, 0, "") for area in areas], "DRAM")
        pipe.send((self.agent.get_agent_metadata(), areas))
        metadata, self.remote_areas = pipe.recv()
        self.agent.add_remote_agent(metadata)
        self.notifications = 0

    def handle(self, operation, place):
        """A WRITE from `sent` to the other's `received`, or a READ of the other's `sent` into ours."""
        if operation == "WRITE":
            return self.handle_of(operation, self.sent, place, self.remote_areas[1], place)
        return self.handle_of(operation, self.received, place, self.remote_areas[0], place)

    def handle_of(self, operation, local, place, remote, remote_place):
        """The same, between places of this memory of ours and that area of the other's."""
        ends = [local.ctypes.data + place * self.size, remote[0] + remote_place * self.size]
        descriptors = [self.agent.get_xfer_descs([(at, self.size, 0)], "DRAM") for at in ends]
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
        """Polls, by which UCX makes progress, until `is_over` returns true."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not is_over():
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"{self.name}: nothing happened for {PATIENCE_S} s")

    def wait_done(self, handle):
        self.poll_until(lambda: self.is_done(handle))

    def is_notified(self, count):
        self.notifications += len(self.agent.get_new_notifs().get(self.other, []))
        return self.notifications >= count

    def wait_notified(self, count):
        self.poll_until(lambda: self.is_notified(count))

    def next_notification(self):
        taken = []
        self.poll_until(lambda: taken or taken.extend(self.agent.get_new_notifs().get(self.other, [])))
        return taken[0]

    def freshen(self):
        """Writes the sent bytes again, and clears the received ones."""
        self.sent.fill(ord(self.name[0]))
        self.received.fill(0)

    def check(self):
        if not (self.received == ord(self.other[0])).all():
            raise RuntimeError("wrong bytes arrived")


def turn_of(size, iterations):
    return max(1, min(TURN, TURN_BYTES // size, iterations))


def trips(end, iterations):
    """Round trips as the first end sees them; half of each, in seconds."""
    iterations += WARMUP
    turn, halves, done = turn_of(end.size, iterations), [], 0
    noise = numpy.random.default_rng().integers(0, 256, turn * end.size, dtype=numpy.uint8)
    while done < iterations:
        count = min(turn, iterations - done)
        numpy.bitwise_xor(noise, numpy.uint8(done % 256), out=end.sent)
        end.received.fill(0)
        theirs = end.remote_areas[1]
        handles = [
            end.handle_of("WRITE", end.sent, place, theirs, (done + place) % SECOND_PLACES)
            for place in range(count)
        ]
        for handle in handles:
            start = time.perf_counter()
            end.post(handle, b"ping")
            end.wait_done(handle)
            done += 1
            end.wait_notified(done)
            halves.append((time.perf_counter() - start) / 2)
        if not numpy.array_equal(end.received[: count * end.size], end.sent[: count * end.size]):
            raise RuntimeError("wrong bytes came back")
    return halves[WARMUP:]


def answer_trips(end, iterations):
    iterations += WARMUP
    turn = turn_of(end.size, iterations)
    theirs = end.remote_areas[1]
    handles = [
        end.handle_of("WRITE", end.received, trip % SECOND_PLACES, theirs, trip % turn)
        for trip in range(iterations)
    ]
    for trip, handle in enumerate(handles, start=1):
        end.wait_notified(trip)
        end.post(handle, b"pong")
        end.wait_done(handle)


def notify_trips(end, iterations):
    """Round trips of notifications as the first end sees them; half of each, in seconds."""
    halves = []
    for trip in range(WARMUP + iterations):
        sent = bytes([trip % 256]) * end.size
        start = time.perf_counter()
        end.agent.send_notif(end.other, sent)
        answer = end.next_notification()
        halves.append((time.perf_counter() - start) / 2)
        if answer != sent:
            raise RuntimeError("a wrong notification came back")
    return halves[WARMUP:]


def answer_notifications(end, iterations):
    for _ in range(WARMUP + iterations):
        end.agent.send_notif(end.other, end.next_notification())
    # UCX sends only while it is polled, and the first may still wait for the last one.
    end.poll_until(lambda: end.agent.get_new_notifs() or end.pipe.poll())


def stream(end, operation, iterations, depth):
    """Returns the seconds for this many messages, with `depth` of them outstanding all the time."""
    handles = [end.handle(operation, place) for place in range(depth)]
    for handle in handles:
        end.post(handle)
        end.wait_done(handle)
    start = time.perf_counter()
    for index in range(iterations):
        handle = handles[index % depth]
        if index >= depth:
            end.wait_done(handle)
        end.post(handle)
    for handle in handles[: min(depth, iterations)]:
        end.wait_done(handle)
    return time.perf_counter() - start


def one_by_one(end, operation, iterations):
    """Seconds from each post until it is done. A turn is made whole, so that all of it is verified."""
    iterations += WARMUP
    handles = [end.handle(operation, place) for place in range(turn_of(end.size, iterations))]
    times = []
    while len(times) < iterations:
        end.freshen()
        # The other end does the same, and needs no polling meanwhile.
        end.pipe.send("freshen")
        end.pipe.recv()
        for handle in handles:
            start = time.perf_counter()
            end.post(handle)
            end.wait_done(handle)
            times.append(time.perf_counter() - start)
    return times[WARMUP:iterations]


def figures_of(end, operation, iterations, depth):
    if depth == 1:
        figures = {"us": statistics.median(one_by_one(end, operation, iterations)) * 1e6}
    else:
        elapsed = stream(end, operation, iterations, depth)
        figures = {"gb_per_s": end.size * iterations / elapsed / 1e9}
    end.agent.send_notif(end.other, b"over")
    if operation == "READ":
        end.check()
    end.poll_until(end.pipe.poll)
    return figures


def serve_stream(end, operation):
    """UCX serves only while it is polled."""
    while not end.is_notified(1):
        if end.pipe.poll():
            end.pipe.recv()
            end.freshen()
            end.pipe.send("fresh")
    if operation == "WRITE":
        end.check()
    end.pipe.send("over")


def places_of(what, size, iterations, depth):
    if what == "notify":
        return 1
    return turn_of(size, iterations + WARMUP) if depth == 1 else depth


def second(pipe, what, size, iterations, depth):
    places = SECOND_PLACES if what == "trip" else places_of(what, size, iterations, depth)
    end = End("second", "first", pipe, size, places)
    if what == "trip":
        answer_trips(end, iterations)
    elif what == "notify":
        answer_notifications(end, iterations)
    else:
        serve_stream(end, what)
    # The first ends while this one is still there.
    pipe.recv()


def main():
    what, (size, iterations, *depth) = sys.argv[1], map(int, sys.argv[2:])
    depth = depth[0] if depth else DEPTH
    context = multiprocessing.get_context("spawn")
    pipe, other_pipe = context.Pipe()
    process = context.Process(target=second, args=(other_pipe, what, size, iterations, depth), daemon=True)
    process.start()
    is_turn = what == "trip"
    places = turn_of(size, iterations + WARMUP) if is_turn else places_of(what, size, iterations, depth)
    end = End("first", "second", pipe, size, places)
    if what == "trip":
        figures = {"half_us": statistics.median(trips(end, iterations)) * 1e6}
    elif what == "notify":
        figures = {"half_us": statistics.median(notify_trips(end, iterations)) * 1e6}
    else:
        figures = figures_of(end, what, iterations, depth)
    print(json.dumps({"what": what, "size_bytes": size, **figures}), flush=True)
    pipe.send("over")
    process.join(PATIENCE_S)


if __name__ == "__main__":
    main()
