"""What tools/scripts/compare-nixl.sh prints.

Each backend has two processes of its own, which live through all rounds and sleep while the others
are measured. Both ends of a pair poll, as UCX wants it: the one that begins asks for its transfers,
the other one for notifications. A program of NIXL with a thread of its own does the same.
"""

import collections
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version

import numpy
import ucx_over_tcp
from gpu_memory import GpuError, GpuMemory, driver
from kv_figures import fitting, kv_figures, kv_line

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, 4 * MIB, 64 * MIB)
OUTSTANDING = 8
# Bytes and messages of a turn; each message has a place of its own.
TURN_BYTES, TURN_MESSAGES = 64 * MIB, 400
DESCRIPTORS, DESCRIPTOR_BYTES = 1000, 4 * KIB
NOTIFICATIONS, NOTIFICATION_BYTES = 400, 64
# Requests of a KV cache under way, the fewest of all rounds, and the note behind each write.
KV_DEPTHS, KV_REQUESTS, KV_NOTE = (1, 4, 16, 64), 120, b"request "
PATIENCE_S = 120
# Every area has bytes of this, and no two places or turns the same ones.
NOISE_BYTES = 4 * MIB
BACKENDS = ("UCX", "TCPX")


class Row:
    """One line of the table: messages of a size, with numbers of outstanding ones and of
    descriptors."""

    def __init__(self, operation, size, depth=1, descriptors=1, anew=False):
        self.operation, self.size, self.depth = operation, size, depth
        self.descriptors, self.anew = descriptors, anew
        self.message = size * descriptors
        self.is_latency = depth == 1
        fit = max(depth, TURN_BYTES // self.message) if size else 0
        self.messages = min(TURN_MESSAGES, fit) if size else NOTIFICATIONS

    def __str__(self):
        if not self.size:
            return f"notification of {NOTIFICATION_BYTES} B, half a round trip"
        text = f"{self.operation} {human(self.size)}"
        if self.descriptors > 1:
            text = f"{self.operation} {self.descriptors:,} × {human(self.size)}"
        text += ", one at a time" if self.depth == 1 else f", {self.depth} outstanding"
        return text + (", made anew" if self.anew else "")

    def figure(self, value):
        return f"{value:.1f} µs" if self.is_latency else f"{value:.2f} GB/s"

    def ratio(self, ours, theirs):
        """Above 1 this backend is faster."""
        return theirs / ours if self.is_latency else ours / theirs


class KvRow(Row):
    """Requests of a KV cache, each a list of blocks. The place of each is posted again and again."""

    def __init__(self, operation, kv, depth, rounds):
        super().__init__(operation, kv["range_bytes"], depth, kv["ranges"])
        self.messages = depth
        self.posts = max(-(-KV_REQUESTS // rounds), 2 * depth)
        self.kv = kv

    def __str__(self):
        return (f"{self.operation}, {self.kv['model']}, {self.kv['tokens']:,} tokens, "
                f"{self.depth} under way")


def human(count):
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB"


def rows(rounds, kv=None):
    if kv:
        for operation in ("READ", "WRITE"):
            yield from (KvRow(operation, kv, depth, rounds) for depth in KV_DEPTHS)
        return
    for operation in ("WRITE", "READ"):
        for depth in (1, OUTSTANDING):
            yield from (Row(operation, size, depth) for size in SIZES)
        for anew in (False, True):
            yield Row(operation, DESCRIPTOR_BYTES, 1, DESCRIPTORS, anew)
    yield Row("notification", 0)


class End:
    """One of two agents, with an area that is read from or written to."""

    def __init__(self, backend, name, other, pipe, bytes_, memory):
        from nixl._api import nixl_agent, nixl_agent_config

        self.backend, self.other, self.pipe = backend, other, pipe
        config = nixl_agent_config(enable_prog_thread=False, backends=[])
        self.agent = nixl_agent(name, config)
        self.agent.create_backend(backend, {})
        self.area = numpy.zeros(bytes_, dtype=numpy.uint8)
        self.noise = numpy.random.default_rng(1).integers(0, 256, NOISE_BYTES, dtype=numpy.uint8)
        # With memory of a GPU the area has the bytes that are written there, and read back.
        self.memory, self.gpu = memory, GpuMemory(bytes_) if memory == "VRAM" else None
        self.local = self.gpu.address if self.gpu else self.area.ctypes.data
        self.agent.register_memory([(self.local, bytes_, 0, "")], memory, backends=[backend])
        pipe.send((self.agent.get_agent_metadata(), self.local))
        metadata, self.remote = pipe.recv()
        self.agent.add_remote_agent(metadata)
        self.handles, self.notes = {}, collections.deque()

    def pieces(self, row, turn):
        """Parts of the area, with the noise and the number that make their bytes."""
        step = min(row.message, NOISE_BYTES)
        end = row.messages * row.message
        for index, at in enumerate(range(0, end, step)):
            number = numpy.uint8((37 * turn + index) % 256)
            part = self.area[at : min(at + step, end)]
            yield part, self.noise[: len(part)], number

    def fill(self, row, turn):
        for part, noise, number in self.pieces(row, turn):
            numpy.bitwise_xor(noise, number, out=part)
        if self.gpu:
            self.gpu.write(self.whole(row))

    def whole(self, row):
        """The part of the area that a row uses."""
        return self.area[: row.messages * row.message]

    def clear(self, row):
        self.whole(row)[:] = 0
        if self.gpu:
            self.gpu.clear(row.messages * row.message)

    def is_filled(self, row, turn):
        if self.gpu:
            self.gpu.read(self.whole(row))
        return all(
            numpy.array_equal(part, numpy.bitwise_xor(noise, number))
            for part, noise, number in self.pieces(row, turn)
        )

    def handle(self, row, place):
        """A transfer of one message. Neighbours are distinct, so that they are not merged."""
        ends = []
        for base in (self.local, self.remote):
            begin = base + place * row.message
            order = [(17 * i) % row.descriptors for i in range(row.descriptors)]
            ranges = [(begin + i * row.size, row.size, 0) for i in order]
            ends.append(self.agent.get_xfer_descs(ranges, self.memory))
        return self.agent.initialize_xfer(
            row.operation, *ends, self.other, backends=[self.backend]
        )

    def wait(self, handle):
        end = time.monotonic() + PATIENCE_S
        state = "PROC"
        while state == "PROC" and time.monotonic() < end:
            for _ in range(1000):
                state = self.agent.check_xfer_state(handle)
                if state != "PROC":
                    break
        if state != "DONE":
            raise RuntimeError(f"{self.backend}: a transfer is {state}")

    def notification(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for _ in range(1000):
                if not self.notes:
                    came = self.agent.get_new_notifs(backends=[self.backend])
                    self.notes.extend(came.get(self.other, ()))
                if self.notes:
                    return self.notes.popleft()
        raise RuntimeError(f"{self.backend}: no notification came")

    def notify(self, message):
        self.agent.send_notif(self.other, message)

    def measure(self, row):
        """The figure of a turn: µs of a message, or GB/s."""
        if not row.size:
            return self.ping(row)
        handles = self.handles.get(str(row))
        if handles is None and not row.anew:
            handles = [self.handle(row, place) for place in range(row.messages)]
            self.handles = {str(row): handles}
        if isinstance(row, KvRow):
            return self.requests(row, handles)
        if row.is_latency:
            return statistics.median(self.one_by_one(row, handles)) * 1e6
        begin = time.perf_counter()
        for index, handle in enumerate(handles):
            if index >= row.depth:
                self.wait(handles[index - row.depth])
            self.agent.transfer(handle)
        for handle in handles[-row.depth :]:
            self.wait(handle)
        return row.messages * row.message / (time.perf_counter() - begin) / 1e9

    def requests(self, row, handles):
        """When each request was posted, when it was seen to be done, and the processor seconds."""
        posted, done = [], []
        begin = time.process_time()
        for index in range(row.posts + row.depth):
            handle = handles[index % row.depth]
            if index >= row.depth:
                self.wait(handle)
                done.append(time.perf_counter())
            if index < row.posts:
                note = KV_NOTE + b"%d" % index if row.operation == "WRITE" else b""
                posted.append(time.perf_counter())
                self.agent.transfer(handle, note)
        return posted, done, time.process_time() - begin

    def one_by_one(self, row, handles):
        for place in range(row.messages):
            begin = time.perf_counter()
            handle = self.handle(row, place) if row.anew else handles[place]
            self.agent.transfer(handle)
            self.wait(handle)
            took = time.perf_counter() - begin
            if row.anew:
                self.agent.release_xfer_handle(handle)
            yield took

    def ping(self, row):
        halves = []
        for trip in range(row.messages):
            message = b"%d" % trip
            message += b"." * (NOTIFICATION_BYTES - len(message))
            begin = time.perf_counter()
            self.notify(message)
            answer = self.notification()
            halves.append((time.perf_counter() - begin) / 2)
            assert answer == message, "a wrong notification came back"
        return statistics.median(halves) * 1e6

    def answer(self, row):
        """Work of the other end meanwhile, until this end reports that the turn is over. Returns
        when the note of each request was seen, and the processor seconds."""
        begin, seen = time.process_time(), {}
        if not row.size:
            for _ in range(row.messages):
                self.notify(self.notification())
        # UCX sends the rest only while it is polled.
        came = self.notification()
        while came.startswith(KV_NOTE):
            seen[int(came[len(KV_NOTE):])] = time.perf_counter()
            came = self.notification()
        assert came == b"over", came
        return seen, time.process_time() - begin


def serve(pipe, backend, name, other, bytes_, memory, environment):
    """One end, which follows the orders of the other."""
    os.environ.update(environment)
    end = End(backend, name, other, pipe, bytes_, memory)
    while True:
        what, *arguments = pipe.recv()
        if what == "end":
            return
        try:
            pipe.send((True, getattr(end, what)(*arguments)))
        except Exception as error:  # pylint: disable=broad-except
            pipe.send((False, f"{backend} {name}: {type(error).__name__}: {error}"))


class Pair:
    """The two processes of a backend."""

    def __init__(self, backend, environment, bytes_, memory):
        context = multiprocessing.get_context("spawn")
        self.pipes = []
        for name, other in (("first", "second"), ("second", "first")):
            pipe, its = context.Pipe()
            arguments = (its, backend, name, other, bytes_, memory, environment)
            context.Process(target=serve, args=arguments, daemon=True).start()
            self.pipes.append(pipe)
        told = [self.receive(pipe) for pipe in self.pipes]
        for pipe, other in zip(self.pipes, told[::-1]):
            pipe.send(other)

    @staticmethod
    def receive(pipe):
        if not pipe.poll(2 * PATIENCE_S):
            raise RuntimeError("an end does not answer")
        return pipe.recv()

    def ask(self, end, *what):
        self.pipes[end].send(what)
        return self.result(end)

    def result(self, end):
        worked, result = self.receive(self.pipes[end])
        if not worked:
            raise RuntimeError(result)
        return result

    def turn(self, row, number):
        source, target = (0, 1) if row.operation == "WRITE" else (1, 0)
        if row.size:
            self.ask(source, "fill", row, number)
            self.ask(target, "clear", row)
        self.pipes[1].send(("answer", row))
        figure = self.ask(0, "measure", row)
        self.ask(0, "notify", b"over")
        answered = self.result(1)
        if row.size and not self.ask(target, "is_filled", row, number):
            raise RuntimeError(f"{row}: wrong bytes have arrived")
        return kv_figures(row, figure, answered) if isinstance(row, KvRow) else figure


def processor():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def compute():
    """Keeps a processor busy, as an inference server does beside its transfers."""
    number = 1
    while True:
        number = number * 1103515245 % 2147483647


def main():
    folder, rounds, busy, kv = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    memory, tuned, begins = sys.argv[5], sys.argv[6], tuple(sys.argv[7:]) or ""
    tuned = dict(setting.split("=", 1) for setting in tuned.split())
    if memory == "VRAM":
        try:
            driver()
        except GpuError as error:
            sys.exit(f"--vram: {error}")
    if kv:
        with open(kv, encoding="utf-8") as report:
            kv = json.load(report)["kv"]
    wanted = fitting(row for row in rows(rounds, kv) if str(row).startswith(begins))
    if not wanted:
        sys.exit(f"no row begins with {', '.join(begins)}, or none fits")
    bytes_ = max(row.messages * row.message for row in wanted) or KIB
    quiet = {"NIXL_LOG_LEVEL": "ERROR"}
    pairs = {
        "UCX": Pair("UCX", {**quiet, **ucx_over_tcp.variables(), **tuned}, bytes_, memory),
        "TCPX": Pair("TCPX", {**quiet, "NIXL_PLUGIN_DIR": folder}, bytes_, memory),
    }
    context = multiprocessing.get_context("spawn")
    for _ in range(busy):
        context.Process(target=compute, daemon=True).start()
    beside = f", {busy} busy with other work" if busy else ""
    beside += ", memory of a GPU" if memory == "VRAM" else ""
    beside += "".join(f", {name}={value}" for name, value in tuned.items())
    beside += ", TCPX encrypts" if os.environ.get("TCPX_ENCRYPTION") else ""
    print(f"{processor()}, {os.cpu_count()} processors{beside}, Linux {platform.release()}, NIXL "
          f"{version('nixl')}, medians of {rounds} rounds\n")
    if kv:
        print("p50 and p99 of a request; core s/GB: processor seconds of both ends, which poll\n")
        print("| | UCX | TCPX | ratio of GB/s |\n|---|---|---|---|")
    else:
        print("| | UCX | TCPX | ratio | of the rounds |\n|---|---|---|---|---|")
    for row in wanted:
        figures = {backend: [] for backend in BACKENDS}
        # The first turn connects, and says what is said once.
        for number in range(rounds + 1):
            for backend in BACKENDS if number % 2 else BACKENDS[::-1]:
                figures[backend].append(pairs[backend].turn(row, number))
        theirs, ours = (figures[backend][1:] for backend in BACKENDS)
        if kv:
            print(kv_line(row, theirs, ours), flush=True)
            continue
        medians = [statistics.median(figures) for figures in (theirs, ours)]
        ratios = [row.ratio(mine, its) for mine, its in zip(ours, theirs)]
        print(f"| {row} | {row.figure(medians[0])} | {row.figure(medians[1])} "
              f"| {row.ratio(medians[1], medians[0]):.2f} "
              f"| {min(ratios):.2f} to {max(ratios):.2f} |", flush=True)
    for pair in pairs.values():
        for pipe in pair.pipes:
            pipe.send(("end",))


if __name__ == "__main__":
    main()
