"""The conformance checks find what they are for: each fails on a backend with one fault.

The fault is in a `nixl._api` that stands before NIXL's own, which processes of a check load as they
load NIXL; below it is TCPX."""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from agents import DEADLINE, run

PACKAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")

FAULTY = '''
import os
import signal
import time

import numpy
from nixl_cu12._api import nixl_agent as real_agent, nixl_agent_config

FAULT = os.environ["VERIFIED_FAULT"]
BIG = 32 << 20
forks, agents = [], []
os.register_at_fork(after_in_parent=lambda: forks.append(1))


class nixl_agent(real_agent):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.posted_at = None
        self.known = set()
        self.lists = 0
        self.about = {}
        agents.append(self)

    def get_xfer_descs(self, rows, *kind):
        self.largest = int(rows[:, 1].max())
        if FAULT == "truncates":
            rows = rows.copy()
            rows[-1, 1] -= rows[-1, 1] > 1
        self.lists += 1
        if FAULT == "swaps" and self.lists % 2:
            rows = rows.copy()
            same = numpy.flatnonzero(rows[:, 1] == rows[0, 1])[:2]
            rows[same, 0] = rows[same[::-1], 0]
        return super().get_xfer_descs(rows, *kind)

    def initialize_xfer(self, operation, local, remote, peer, notification=b"", backends=()):
        if FAULT == "notifies first":
            notification = b""
        handle = super().initialize_xfer(operation, local, remote, peer, notification, backends=backends)
        self.about[handle._handle] = [operation, peer, self.largest, 0]
        return handle

    def transfer(self, handle, notification=b""):
        about = self.about[handle._handle]
        about[3] += 1
        operation, peer, largest, posts = about
        last, self.posted_at = self.posted_at, time.monotonic()
        if FAULT == "is slow at first" and last is None:
            time.sleep(3)
        if FAULT == "is slow after idleness" and last and self.posted_at - last > 0.9:
            time.sleep(3)
        if FAULT == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if FAULT == "breaks at a fork" and forks:
            return "ERR"
        if (FAULT == "posts once" and posts > 1 or FAULT == "drops reads" and operation == "READ"
                or FAULT == "drops big ones" and largest > BIG
                or FAULT == "serves one agent" and self is not agents[0]):
            return "DONE"
        if FAULT == "notifies first" and notification:
            self.send_notif(peer, notification)
            time.sleep(0.05)
            return super().transfer(handle)
        if FAULT == "notifies twice" and notification:
            self.send_notif(peer, notification)
        return super().transfer(handle, notification)

    def check_xfer_state(self, handle):
        if FAULT == "never ends":
            return "PROC"
        try:
            return super().check_xfer_state(handle)
        except Exception:
            if FAULT == "hides errors":
                return "PROC"
            raise

    def release_xfer_handle(self, handle):
        if FAULT == "dies at a release":
            os.kill(os.getpid(), signal.SIGSEGV)
        super().release_xfer_handle(handle)

    def deregister_memory(self, *arguments, **named):
        if FAULT != "keeps memory":
            super().deregister_memory(*arguments, **named)

    def add_remote_agent(self, metadata):
        if FAULT != "keeps metadata" or not self.known:
            self.known.add(super().add_remote_agent(metadata))

    def remove_remote_agent(self, agent):
        if FAULT != "keeps metadata":
            super().remove_remote_agent(agent)

    def get_new_notifs(self, *arguments):
        came = super().get_new_notifs(*arguments)
        if FAULT == "loses notifications":
            came = {name: messages[1:] for name, messages in came.items()}
        return came
'''
# What the backend does wrong, the check that finds it, its state, and words of what it saw.
FAULTS = [
    ("notifies first", "torn-writes", "failed", "notifications came before their bytes"),
    ("notifies first", "notification-order", "failed", "came before its bytes: "),
    ("notifies twice", "notification-order", "failed", "notification 0 came where 1 was next"),
    ("loses notifications", "notifications-alone", "hung", "500 notifications of here"),
    ("truncates", "truncated-reads", "failed", "a READ of 7 bytes: 1 of"),
    ("never ends", "truncated-reads", "hung", "the end of a transfer"),
    ("dies", "truncated-reads", "failed", "the process died of SIGSEGV"),
    ("swaps", "permuted-lists", "failed", "a WRITE: "),
    ("truncates", "overlapping-lists", "failed", "a WRITE: 1 of"),
    ("posts once", "repost", "hung", "1 notifications of here"),
    ("dies at a release", "release-active", "failed", "the process died of SIGSEGV"),
    ("drops reads", "release-active", "failed", "the next READ: "),
    ("is slow at first", "first-transfer", "failed", "first 3"),
    ("is slow after idleness", "idle", "failed", "1 MiB after 1 s took"),
    ("keeps memory", "deregister-under-reads", "failed", "of its later use"),
    ("keeps metadata", "metadata-changes", "failed", "NIXL_ERR_NOT_FOUND"),
    ("hides errors", "peer-killed", "hung", "the end of a transfer"),
    ("drops big ones", "peer-stopped", "hung", "1 notifications of here"),
    ("keeps metadata", "peer-restarted", "hung", "a transfer that works again"),
    ("serves one agent", "two-agents", "hung", "1 notifications of beside"),
    ("breaks at a fork", "fork", "failed", "a WRITE with a fork in it: ERR"),
    ("notifies twice", "all-to-all", "failed", "notifications of agent"),
    ("none", "repost", "passed", "50 posts"),
]


def verify(*words, fault="none"):
    """Runs the program on a backend with a fault."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "nixl"))
        for name, text in (("__init__", ""), ("_api", FAULTY)):
            with open(os.path.join(folder, "nixl", name + ".py"), "w", encoding="ascii") as file:
                file.write(text)
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1",
                       "VERIFIED_FAULT": fault}
        return subprocess.run([sys.executable, "-m", "nixl_tcpx", "verify", *words], capture_output=True,
                              text=True, timeout=DEADLINE, check=False, env=environment)


def seen_of(case):
    """What a check says of a fault."""
    fault, check, state, _ = case
    within = "3" if state == "hung" else str(DEADLINE // 2)
    # Bounds between what a busy machine needs and what the fault costs are for the two slow ones.
    slow = "1.5" if "slow" in fault else str(DEADLINE)
    done = verify("--only", check, "--json", "-", "--within", within, "--seconds", str(DEADLINE), "--slow", slow,
                  "--idle", "1", "--stopped", "0.5", fault=fault)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if state == "passed" else 1), done
    assert report["conforms"] == (state == "passed"), report
    (seen,) = report["checks"]
    return seen


def faults():
    """Each check says what is wrong with a backend that has a fault of its kind."""
    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(seen_of, FAULTS))
    wrong = [
        (case, report) for case, report in zip(FAULTS, seen)
        if report["state"] != case[2] or case[3] not in report["seen"]
    ]
    assert not wrong, wrong


def all_are_covered():
    """No check is without a fault that it finds."""
    listed = {line.split(":")[0] for line in verify("--list").stdout.splitlines()}
    assert listed == {check for _, check, _, _ in FAULTS}, listed


def bounded():
    """A check that takes too long is ended and says so, and the next one runs."""
    done = verify("--only", "repost", "--only", "idle", "--seconds", "0.01", "--json", "-")
    checks = json.loads(done.stdout)["checks"]
    assert [(one["name"], one["state"]) for one in checks] == [("repost", "hung"), ("idle", "hung")], done
    assert all("no end within 0.01 s" in one["seen"] for one in checks), checks


def refused():
    """A backend that is not there is refused, and the status says that nothing passed."""
    done = verify("--backend", "NONE", "--only", "repost", "--json", "-")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["counts"]["refused"] == 1, done
    assert report["checks"][0]["seen"] == "NIXL finds no NONE", report
    done = verify("--only", "nothing")
    assert done.returncode == 1 and "there is no check nothing" in done.stderr, done


if __name__ == "__main__":
    run([faults, all_are_covered, bounded, refused])
