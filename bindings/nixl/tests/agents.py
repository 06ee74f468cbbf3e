"""Agents of NIXL for the tests: one here, others in processes of their own that obey it."""

import ctypes
import mmap
import multiprocessing
import os
import signal
import subprocess
import time

import numpy
from nixl._api import nixl_agent, nixl_agent_config

try:
    from nixl._api import nixl_thread_sync_t

    LOCKING = {mode.name.rsplit("_", 1)[-1]: {"sync_mode": mode} for mode in nixl_thread_sync_t}
except ImportError:
    # NIXL before 1.1 leaves its program no choice.
    LOCKING = {}

BACKEND = "TCPX"
# A peer that takes longer to do what it was told is stuck. A busy machine takes minutes for what a
# quiet one does in a second.
DEADLINE = 600
# More than anything that is given up may take, on a busy machine too.
BOUND = 300
# Seconds of asking without a pause: what is quick is met at its moment. What takes longer, such as
# a peer that is silent for too long, does not need a processor.
EAGER = 0.05


def until(what, condition, seconds=DEADLINE, eager=EAGER):
    """Asks until it is so, and returns the answer."""
    begin = now = time.monotonic()
    while now < begin + seconds:
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now > begin + eager:
            time.sleep(0.001)
    raise AssertionError(f"not within {seconds} s: {what}")


def pattern(seed, count):
    """Bytes that no other seed has."""
    return numpy.random.default_rng(seed).integers(0, 256, count, dtype=numpy.uint8)


def blocks(seed, count, block=1 << 20):
    """The same bytes piece by piece, with where each begins: new memory is slow to come by."""
    numbers = numpy.random.default_rng(seed)
    for start in range(0, count, block):
        size = min(block, count - start)
        yield start, numbers.integers(0, 256, size, dtype=numpy.uint8)


def protect(area, protection):
    libc = ctypes.CDLL(None, use_errno=True)
    code = libc.mprotect(
        ctypes.c_void_p(area.ctypes.data), ctypes.c_size_t(len(area)), ctypes.c_int(protection)
    )
    assert code == 0, os.strerror(ctypes.get_errno())


class Agent:
    """An agent with areas of memory, which are known by number."""

    def __init__(self, name, config=None, parameters=None):
        config = dict(config or {})
        self.nixl = nixl_agent(name, nixl_agent_config(backends=[], **config))
        self.nixl.create_backend(BACKEND, parameters or {})
        self.name = name
        self.areas = []
        self.registrations = []
        self.came = {}

    def add_area(self, count, kind="DRAM", device=0):
        """Registers memory that is zero. Returns its number, address, kind and device."""
        area = numpy.zeros(count, dtype=numpy.uint8)
        registration = self.nixl.register_memory(
            [(area.ctypes.data, count, device, "")], kind, backends=[BACKEND]
        )
        self.areas.append(area)
        self.registrations.append(registration)
        return len(self.areas) - 1, area.ctypes.data, kind, device

    def add_pages(self, count):
        """As `add_area`, of memory that can be taken away from the process."""
        pages = mmap.mmap(-1, count)
        area = numpy.frombuffer(pages, dtype=numpy.uint8)
        registration = self.nixl.register_memory(
            [(area.ctypes.data, count, 0, "")], "DRAM", backends=[BACKEND]
        )
        self.areas.append(area)
        self.registrations.append(registration)
        return len(self.areas) - 1, area.ctypes.data, "DRAM", 0

    def forbid(self, number):
        """An access to the area ends the process from now on, or is an error of the system."""
        protect(self.areas[number], 0)

    def allow(self, number):
        protect(self.areas[number], mmap.PROT_READ | mmap.PROT_WRITE)

    def drop_area(self, number):
        self.nixl.deregister_memory(self.registrations[number], backends=[BACKEND])

    def drop_when_written(self, number):
        """Takes memory back as soon as a peer writes into it."""
        until("the first bytes", lambda: self.areas[number][:64].any())
        self.drop_area(number)

    def fill(self, number, seed, offset=0, count=None):
        area = self.areas[number]
        count = len(area) - offset if count is None else count
        for start, block in blocks(seed, count):
            area[offset + start : offset + start + len(block)] = block

    def is_filled(self, number, seed, offset=0, count=None):
        area = self.areas[number]
        count = len(area) - offset if count is None else count
        return all(
            numpy.array_equal(area[offset + start : offset + start + len(block)], block)
            for start, block in blocks(seed, count)
        )

    def read(self, number, count, offset=0):
        return bytes(self.areas[number][offset : offset + count])

    def metadata(self):
        return self.nixl.get_agent_metadata()

    def know(self, metadata):
        name = self.nixl.add_remote_agent(metadata)
        return name.decode() if isinstance(name, bytes) else name

    def forget(self, name):
        self.nixl.remove_remote_agent(name)

    def notifications(self, sender, count=1, seconds=DEADLINE):
        """Waits for this many notifications of a sender, and returns all that have come from the
        sender."""

        def enough():
            for name, messages in self.nixl.get_new_notifs().items():
                self.came.setdefault(name, []).extend(messages)
            return len(self.came.get(sender, [])) >= count

        until(f"{count} notifications of {sender}", enough, seconds)
        return self.came.pop(sender)

    def notify(self, peer, message):
        self.nixl.send_notif(peer, message)

    def notify_often(self, peer, message, times):
        for _ in range(times):
            self.notify(peer, message)

    def address(self, number):
        return self.areas[number].ctypes.data

    def prepare(self, operation, pairs, peer, notification=b"", kinds=("DRAM", "DRAM")):
        """A transfer of pairs (address here, device, address there, device, bytes)."""
        local = [(here, count, device) for here, device, _, _, count in pairs]
        remote = [(there, count, device) for _, _, there, device, count in pairs]
        return self.nixl.initialize_xfer(
            operation,
            self.nixl.get_xfer_descs(local, kinds[0]),
            self.nixl.get_xfer_descs(remote, kinds[1]),
            peer,
            notification,
            backends=[BACKEND],
        )

    def post(self, handle, notification=b""):
        return self.nixl.transfer(handle, notification)

    def state(self, handle):
        return self.nixl.check_xfer_state(handle)

    def finish(self, handle, seconds=DEADLINE):
        """Waits until a transfer that was posted is done."""
        until("a transfer", lambda: self.state(handle) == "DONE", seconds)

    def transfer(self, operation, pairs, peer, notification=b"", kinds=("DRAM", "DRAM")):
        """From the preparation to the release."""
        handle = self.prepare(operation, pairs, peer, notification, kinds)
        if self.post(handle) != "DONE":
            self.finish(handle)
        self.nixl.release_xfer_handle(handle)

    def transfer_at_last(self, *arguments):
        """As `transfer`, once more if the peer turns out to be lost: the second one must work."""
        try:
            self.transfer(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            assert "REMOTE_DISCONNECT" in str(error), error
            self.transfer(*arguments)

    def refusal_of(self, method, *arguments):
        """The error that a method ends with."""
        try:
            getattr(self, method)(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            return str(error)
        return "none"

    def sleep(self, seconds):
        """The program of the agent calls nothing."""
        time.sleep(seconds)

    def move(self, operation, pairs, peer, notification=b"", times=1):
        """Posts one transfer again and again."""
        handle = self.prepare(operation, pairs, peer)
        for _ in range(times):
            if self.post(handle, notification) != "DONE":
                self.finish(handle)
        self.nixl.release_xfer_handle(handle)

    def resources(self):
        """Descriptors, threads and KiB of memory of the process."""
        with open("/proc/self/status", encoding="ascii") as status:
            fields = dict(line.split(":", 1) for line in status)
        return (
            len(os.listdir("/proc/self/fd")),
            int(fields["Threads"]),
            int(fields["VmRSS"].split()[0]),
        )


class Link:
    """Two network namespaces with a link between them, which may be cut. It takes root."""

    ADDRESSES = {"left": "10.77.0.1", "right": "10.77.0.2"}

    def __init__(self):
        self.ends = {side: f"tcpx-nixl-{side}-{os.getpid()}" for side in self.ADDRESSES}

    def __enter__(self):
        for end in self.ends.values():
            self._ip("netns", "add", end)
        left, right = self.ends.values()
        self._ip("link", "add", "wire", "netns", left, "type", "veth", "peer", "wire", "netns", right)
        for side, end in self.ends.items():
            self._ip("-n", end, "address", "add", self.ADDRESSES[side] + "/24", "dev", "wire")
            for device in ("lo", "wire"):
                self._ip("-n", end, "link", "set", device, "up")
        return self

    def __exit__(self, *_):
        for end in self.ends.values():
            self._ip("netns", "delete", end)

    def set(self, state):
        """Cuts it, with "down", or restores it, with "up"."""
        self._ip("-n", self.ends["right"], "link", "set", "wire", state)

    @staticmethod
    def _ip(*arguments):
        subprocess.run(("ip",) + arguments, check=True)

    def place(self, side):
        """The environment of a peer that is to live at this end."""
        return {"TEST_NETNS": "/run/netns/" + self.ends[side], "TCPX_ADVERTISE": self.ADDRESSES[side]}


def _enter_netns(path):
    new_network = 0x40000000
    with open(path, "rb") as namespace:
        code = ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), new_network)
    assert code == 0, os.strerror(ctypes.get_errno())


def _serve(pipe, kind, name, config, parameters, environment):
    os.environ.update(environment)
    if "TEST_NETNS" in environment:
        _enter_netns(environment["TEST_NETNS"])
    agent = kind(name, config, parameters)
    pipe.send(None)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, getattr(agent, method)(*arguments)))
        except Exception as error:  # pylint: disable=broad-except
            pipe.send((False, f"{type(error).__name__}: {error}"))


class Peer:
    """An agent in a process of its own, with the methods of its kind; `begin` does not wait."""

    def __init__(self, name, config=None, parameters=None, environment=None, kind=Agent):
        self.name = name
        self._pipe, other = multiprocessing.Pipe()
        arguments = (other, kind, name, config, parameters, environment or {})
        self.process = multiprocessing.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        other.close()
        assert self._pipe.poll(DEADLINE), f"{name} does not start"
        self._pipe.recv()

    def begin(self, method, *arguments):
        self._pipe.send((method, arguments))

    def answer(self):
        assert self._pipe.poll(DEADLINE), f"{self.name} does not answer"
        worked, result = self._pipe.recv()
        assert worked, f"{self.name}: {result}"
        return result

    def __getattr__(self, method):
        def call(*arguments):
            self.begin(method, *arguments)
            return self.answer()

        return call

    def freeze(self):
        """Returns when none of its threads runs any more."""
        os.kill(self.process.pid, signal.SIGSTOP)
        until("a stop", lambda: all(state == "T" for state in self._thread_states()))

    def _thread_states(self):
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/stat", encoding="ascii") as stat:
                yield stat.read().rsplit(")", 1)[1].split()[0]

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def close(self):
        self._pipe.close()
        self.process.join(DEADLINE)
        assert not self.process.is_alive(), f"{self.name} does not end"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self.process.is_alive():
            self.close()
        else:
            self.process.kill()
            self.process.join()


def run(tests):
    """Runs tests, or those that are named on the command line; each says what it is about."""
    import sys

    multiprocessing.set_start_method("spawn", force=True)
    wanted = sys.argv[1:]
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        begin = time.monotonic()
        test()
        print(f"ok {test.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
