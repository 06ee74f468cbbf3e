"""What a running agent shows of its peers: a line of the log, and a page of metrics."""

import os
import re
import subprocess
import sys
import tempfile

from agents import DEADLINE, Agent, Peer, run, until
from transfers import MIB, pair, span

TWO_ENDS = """
import multiprocessing

from transfers import MIB, pair, span

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    here, there, mine, its = pair(MIB)
    with there:
        here.transfer("WRITE", span(mine, its, MIB), "there", b"it")
        there.notifications("here")
        print("moved")
"""


def transport_in_the_log():
    """With NIXL's INFO each peer that is up has a line of what carries its bytes; by default none."""
    for level, lines in (("INFO", 1), ("WARN", 0)):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "two_ends.py")
            with open(path, "w", encoding="ascii") as file:
                file.write(TWO_ENDS)
            tests = os.path.dirname(os.path.abspath(__file__))
            environment = {**os.environ, "PYTHONPATH": tests, "PYTHONDONTWRITEBYTECODE": "1",
                           "NIXL_LOG_LEVEL": level}
            done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=DEADLINE,
                                  check=True, env=environment)
        assert "moved" in done.stdout, done
        up = re.findall(r"^INFO NIXL backend TCPX: .*(?:peer is up|channels are open).*$", done.stderr, re.M)
        for name in ("here", "there"):
            ours = [line for line in up if re.search(rf'peer="?{name}"?\b', line)]
            assert len(ours) >= lines and (lines or not up), (level, name, done.stderr)
            for fact in ("transport=", "from=", "to=", "nics=", "peer_nics=", "channels=", "encrypted=",
                         "zero_copy=", "one_sided="):
                assert all(fact in line for line in ours), (fact, ours)


def pages_in(folder):
    """Pages of metrics by the file's name, hidden ones left out."""
    names = [name for name in os.listdir(folder) if not name.startswith(".")]
    pages = {}
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            pages[name] = file.read()
    return pages


def metrics_in_files():
    """Each agent of a process has a page, which counts what its peers have moved, and none when it
    has ended."""
    with tempfile.TemporaryDirectory() as folder:
        here, there, mine, its = pair(4 * MIB, environment={"TCPX_METRICS_DIR": folder})
        with there:
            here.transfer("WRITE", span(mine, its, 4 * MIB), "there", b"it")
            there.notifications("here")
            moved = re.compile(r'^tcpx_peer_bytes_total\{.*peer="here[^"]*".*direction="received"\} (\d+)$', re.M)

            def counted():
                found = [moved.search(page) for page in pages_in(folder).values()]
                return any(one and int(one[1]) >= 4 * MIB for one in found)

            until("the page counts what was written", counted)
            pages = pages_in(folder)
            (name,) = pages
            assert re.fullmatch(rf"tcpx-{there.process.pid}-\d+\.prom", name), pages
            assert 'tcpx_peer_info{session="there"' in pages[name], pages[name]
        until("the page goes with its agent", lambda: not os.listdir(folder))


def no_page_where_none_can_be():
    """A folder that is not there costs a line of the log, and no transfer."""
    here, there, mine, its = pair(MIB, environment={"TCPX_METRICS_DIR": "/nowhere/at/all"})
    with there:
        here.fill(0, 7)
        here.transfer("WRITE", span(mine, its, MIB), "there", b"it")
        assert there.notifications("here") == [b"it"] and there.is_filled(0, 7)


def of_a_fork():
    """A child leaves its parent's page alone, and ends."""
    with tempfile.TemporaryDirectory() as folder:
        with Peer("there", environment={"TCPX_METRICS_DIR": folder}, kind=Forking) as there:
            until("a page", lambda: pages_in(folder))
            assert there.fork_and_drop() == 0
            assert len(pages_in(folder)) == 1, os.listdir(folder)


class Forking(Agent):
    """An agent that a child drops."""

    def fork_and_drop(self):
        """Returns the status of a child that has destroyed its copy of the agent."""
        child = os.fork()
        if not child:
            del self.nixl
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    run([transport_in_the_log, metrics_in_files, no_page_where_none_can_be, of_a_fork])
