"""Two agents in one process, and processes with an agent of their own."""

import base64
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import tcpx

# Time for what must come.
PATIENCE = 60.0
CHILDREN = pathlib.Path(__file__).with_name("children.py")


class Child:
    """A process that runs a function of children.py. The two exchange lists of bytes."""

    def __init__(self, function, *arguments):
        command = [sys.executable, str(CHILDREN), function, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def say(self, *words):
        line = " ".join(base64.b64encode(word).decode() for word in words)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read())
        return [base64.b64decode(word) for word in line.split()]

    def end(self):
        """Ends its input, and returns its status and what it wrote as errors."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def interrupt(self):
        """Interrupts it in the wait that it has announced."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            os.sched_yield()
        self.process.send_signal(signal.SIGINT)

    def kill(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


@pytest.fixture(autouse=True, scope="session")
def no_foreign_settings():
    """Nothing of the caller's environment chooses another plugin or settings."""
    for name in [name for name in os.environ if name.startswith("TCPX_")]:
        del os.environ[name]
    os.environ["TCPX_LISTEN"] = "127.0.0.1:0"


@pytest.fixture
def children():
    """Starts processes, and ends them with the test."""
    started = []

    def start(function, *arguments):
        started.append(Child(function, *arguments))
        return started[-1]

    yield start
    for child in started:
        child.kill()


@pytest.fixture
def agents():
    """Makes agents, and closes them with the test."""
    made = []

    def make(name, **options):
        made.append(tcpx.Agent(name, **options))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.fixture
def pair(agents):
    """Two agents that are connected."""
    here, there = agents("here"), agents("there")
    here.connect(here.add(there.address)).wait(PATIENCE)
    return here, there
