"""Agents of any backend for the checks: one here, and peers in processes of their own."""

import importlib
import multiprocessing
import os
import signal
import time

import numpy

MIB = 1 << 20


class Failure(Exception):
    """The backend does not do what a check demands."""


class Hung(Failure):
    """Something did not end in its time."""


class Refused(Exception):
    """The backend says that it does not support what a check needs."""


# Seconds of asking without a pause.
EAGER = 0.05


def until(what, condition, seconds):
    """Asks until the answer is true, and returns it: at first all the time, then every millisecond."""
    begin = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited = time.monotonic() - begin
        if waited > seconds:
            raise Hung(f"{what}: not within {seconds:g} s")
        if waited > EAGER:
            time.sleep(0.001)


def pattern(seed, count):
    """Bytes that no other seed has."""
    return numpy.random.default_rng(seed).integers(0, 256, count, dtype=numpy.uint8)


def span(address, count):
    """One descriptor: address, bytes, device."""
    return spans([address], [count])


def spans(addresses, counts):
    """Descriptors, one a row."""
    rows = numpy.zeros((len(addresses), 3), dtype=numpy.uint64)
    rows[:, 0] = addresses
    rows[:, 1] = counts
    return rows


class Agent:
    """An agent with one backend, and areas of memory that are known by number."""

    def __init__(self, name, options):
        api = importlib.import_module("nixl._api")
        self.name = name
        self.options = options
        self.only = [options.backend]
        self.nixl = api.nixl_agent(name, api.nixl_agent_config(backends=[]))
        if options.backend not in self.nixl.get_plugin_list():
            raise Refused(f"NIXL finds no {options.backend}")
        try:
            self.nixl.create_backend(options.backend, dict(options.parameters))
        except Exception as error:  # pylint: disable=broad-except
            raise Refused(f"the backend cannot be made: {error}") from error
        self.areas = []
        self.registrations = []
        self.came = {}
        self.has_exported = False

    def add_area(self, count, value=0):
        """Registers memory with one value. Returns its number and address."""
        area = numpy.full(count, value, dtype=numpy.uint8)
        self.areas.append(area)
        self.registrations.append(None)
        self.register(len(self.areas) - 1)
        return len(self.areas) - 1, area.ctypes.data

    def register(self, number):
        area = self.areas[number]
        try:
            self.registrations[number] = self.nixl.register_memory(
                [(area.ctypes.data, area.nbytes, 0, "")], "DRAM", backends=self.only
            )
        except Exception as error:  # pylint: disable=broad-except
            raise Refused(f"host memory cannot be registered: {error}") from error

    def deregister(self, number):
        self.nixl.deregister_memory(self.registrations[number], backends=self.only)

    def deregister_and_fill(self, number, value):
        """Takes memory back, and uses it for something else."""
        self.deregister(number)
        self.areas[number][:] = value

    def fill(self, number, seed):
        self.areas[number][:] = pattern(seed, len(self.areas[number]))

    def set(self, number, value):
        self.areas[number][:] = value

    def read(self, number):
        return self.areas[number].tobytes()

    def metadata(self):
        try:
            return self.nixl.get_agent_metadata()
        except Exception as error:  # pylint: disable=broad-except
            # Backends of storage have no peers.
            kind = Failure if self.has_exported else Refused
            raise kind(f"agents have no metadata for others: {error}") from error
        finally:
            self.has_exported = True

    def know(self, metadata):
        self.nixl.add_remote_agent(metadata)

    def forget(self, name):
        self.nixl.remove_remote_agent(name)

    def notify(self, peer, message):
        self.nixl.send_notif(peer, message)

    def collect(self, sender):
        """All notifications of a sender so far."""
        for name, messages in self.nixl.get_new_notifs().items():
            self.came.setdefault(name, []).extend(messages)
        return self.came.get(sender, [])

    def notifications(self, sender, count, seconds):
        """Waits for this many notifications of a sender. Returns those, and removes them."""
        until(f"{count} notifications of {sender}", lambda: len(self.collect(sender)) >= count, seconds)
        return self.came.pop(sender)

    def prepare(self, operation, local, remote, peer, notification=b""):
        """A transfer between descriptors here and those of a peer."""
        return self.nixl.initialize_xfer(
            operation, self.nixl.get_xfer_descs(local, "DRAM"),
            self.nixl.get_xfer_descs(remote, "DRAM"), peer, notification, backends=self.only,
        )

    def post(self, handle, notification=b""):
        """Begins a transfer. Returns "DONE", "PROC", or what went wrong."""
        try:
            return self.nixl.transfer(handle, notification)
        except Exception as error:  # pylint: disable=broad-except
            return str(error) or type(error).__name__

    def state(self, handle):
        """As `post`, of one that was begun."""
        try:
            return self.nixl.check_xfer_state(handle)
        except Exception as error:  # pylint: disable=broad-except
            return str(error) or type(error).__name__

    def outcome(self, handle, notification=b"", seconds=None):
        """Posts and waits for an end. Returns "DONE", or what went wrong."""
        state = self.post(handle, notification)
        return self.end_of(handle, seconds) if state == "PROC" else state

    def end_of(self, handle, seconds=None):
        """Waits for the end of a transfer. Returns "DONE", or what went wrong."""
        states = ["PROC"]

        def ended():
            states[0] = self.state(handle)
            return states[0] != "PROC"

        until("the end of a transfer", ended, seconds or self.options.within)
        return states[0]

    def release(self, handle):
        self.nixl.release_xfer_handle(handle)

    def transfer(self, operation, local, remote, peer, notification=b""):
        """From the preparation to the release; it must work."""
        handle = self.prepare(operation, local, remote, peer, notification)
        state = self.outcome(handle, notification)
        self.release(handle)
        if state != "DONE":
            raise Failure(f"a {operation} ends with {state}")

    def attempt(self, operation, local, remote, peer, notification=b""):
        """As `transfer`. Returns "DONE", or what went wrong at any step."""
        try:
            self.transfer(operation, local, remote, peer, notification)
        except Hung:
            raise
        except Exception as error:  # pylint: disable=broad-except
            return str(error)
        return "DONE"

    def transfer_within(self, operation, local, remote, peer, seconds):
        """Attempts over and over; one must work. Returns how many it took."""
        tries = []

        def worked():
            tries.append(self.attempt(operation, local, remote, peer))
            return tries[-1] == "DONE"

        try:
            until("a transfer that works again", worked, seconds)
        except Hung as error:
            raise Hung(f"{error}; the last of {len(tries)} ends with {tries[-1:]}") from error
        return len(tries)

    def watch_generations(self, number, sender, last, seconds):
        """Looks at memory whenever a notification of a generation comes. Returns what was wrong:
        (generation, oldest byte, bytes that are older)."""
        area, seen = self.areas[number], 0
        wrong = []

        def over():
            nonlocal seen
            messages = self.collect(sender)
            generation = int(messages[-1]) if len(messages) > seen else 0
            seen = len(messages)
            if generation and int(area.min()) < generation:
                wrong.append((generation, int(area.min()), int((area < generation).sum())))
            return generation == last

        until(f"the notification of generation {last}", over, seconds)
        return wrong, seen

    def call(self, function, *arguments):
        """Runs a check's own function with this agent."""
        return function(self, *arguments)


def _serve(pipe, name, options):
    try:
        agent = Agent(name, options)
    except Exception as error:  # pylint: disable=broad-except
        pipe.send((False, error if isinstance(error, Refused) else Failure(str(error))))
        return
    pipe.send((True, None))
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, getattr(agent, method)(*arguments)))
        except (Failure, Refused) as error:
            pipe.send((False, error))
        except Exception as error:  # pylint: disable=broad-except
            pipe.send((False, Failure(f"{type(error).__name__}: {error}")))


class Peer:
    """An agent in a process of its own, with the methods of one; `begin` does not wait."""

    def __init__(self, name, options):
        self.name = name
        self.options = options
        spawn = multiprocessing.get_context("spawn")
        self._pipe, other = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(other, name, options), daemon=True)
        self.process.start()
        other.close()
        self.answer()

    def begin(self, method, *arguments):
        self._pipe.send((method, arguments))

    def answer(self):
        """What a method that was begun returns. A peer that died is a failure."""
        if not self._pipe.poll(self.options.deadline):
            raise Hung(f"{self.name} does not answer within {self.options.deadline:g} s")
        try:
            worked, result = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            self.process.join(self.options.deadline)
            raise Failure(f"{self.name} {death(self.process.exitcode)}") from error
        if not worked:
            raise result
        return result

    def has_answered(self):
        """Whether `answer` would not wait."""
        return self._pipe.poll()

    def __getattr__(self, method):
        def call(*arguments):
            self.begin(method, *arguments)
            return self.answer()

        return call

    def stop(self):
        """Returns when none of its threads runs any more."""
        os.kill(self.process.pid, signal.SIGSTOP)
        until("a stop", lambda: set(self._thread_states()) == {"T"}, self.options.deadline)

    def _thread_states(self):
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/stat", encoding="ascii") as stat:
                yield stat.read().rsplit(")", 1)[1].split()[0]

    def proceed(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.join()


def death(code):
    """How a process ended, in words."""
    if code is not None and code < 0:
        return f"died of {signal.Signals(-code).name}"
    return f"ended with {code}"


def pair(options, count, its_count=None):
    """An agent here and one elsewhere, with an area each, which know each other."""
    here, there = Agent("here", options), Peer("there", options)
    mine, its = here.add_area(count), there.add_area(its_count or count)
    here.know(there.metadata())
    there.know(here.metadata())
    return here, there, mine, its


def first_difference(got, wanted):
    """Where bytes differ, in words; empty where they do not."""
    got, wanted = (numpy.frombuffer(memoryview(one), dtype=numpy.uint8) for one in (got, wanted))
    wrong = numpy.flatnonzero(got != wanted)
    return f"{len(wrong)} of {len(wanted)} bytes are wrong, the first at {wrong[0]}" if len(wrong) else ""


def demand(difference, what):
    """Fails with a difference, if there is one."""
    if difference:
        raise Failure(f"{what}: {difference}")
