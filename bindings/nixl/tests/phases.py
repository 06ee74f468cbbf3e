"""Either end killed or stopped, in each phase; the other one goes on, also with who comes back.

One agent lives through all of it. Its peer is another process each time, under the same name.
"""

import time

from agents import BOUND, Agent, Peer, run, until
from ends import forget_if_known, has_ended
from transfers import MIB, span

# How long a silent peer is waited for, and one that does not answer a call. A peer that is there
# must not be taken for one on a busy machine.
SHORT = {"peer_timeout_ms": "8000", "connect_timeout_ms": "8000", "close_timeout_ms": "4000"}
LARGE = 128 * MIB


def must_end(here, handle):
    """A transfer ends by itself, well or not."""
    begin = time.monotonic()
    until("its end", lambda: has_ended(here, handle), BOUND)
    assert time.monotonic() - begin < BOUND
    here.nixl.release_xfer_handle(handle)


def large_post(operation):
    def phase(here, there, mine, its, harm):
        here.transfer("WRITE", span(mine, its, 4096), "there")
        here.areas[0][:64] = 0
        handle = here.prepare(operation, span(mine, its, LARGE), "there")
        here.post(handle)
        if operation == "READ":
            until("the first bytes", lambda: here.areas[0][:64].any())
        harm(there)
        must_end(here, handle)

    return phase


def target_in_connect(here, there, mine, its, harm):
    """It does not answer agents that connect; when it is killed, not even later."""
    there.freeze()
    handle = here.prepare("WRITE", span(mine, its, 4096), "there")
    here.post(handle)
    harm(there)
    must_end(here, handle)


def target_between(here, there, mine, its, harm):
    handle = here.prepare("WRITE", span(mine, its, 4096), "there")
    here.post(handle)
    here.finish(handle)
    harm(there)
    try:
        here.post(handle)
    except Exception as error:  # pylint: disable=broad-except
        # It is known to be gone already.
        assert "REMOTE_DISCONNECT" in str(error) or "NOT_FOUND" in str(error), error
        here.nixl.release_xfer_handle(handle)
        return
    must_end(here, handle)


def target_of_notifications(here, there, _mine, _its, harm):
    here.notify("there", b"first")
    there.notifications("here")
    harm(there)
    # One by itself is lost without a word where the other end cannot be reached. Of a flood more
    # wait for the other end than may.
    until("a refusal", lambda: is_refused(here, b"x" * 60_000), BOUND, eager=BOUND)


def is_refused(here, message):
    try:
        here.notify("there", message)
    except Exception as error:  # pylint: disable=broad-except
        names = ("REMOTE_DISCONNECT", "NOT_FOUND", "BACKEND")
        assert any(name in str(error) for name in names), error
        return True
    return False


def initiator_in_connect(here, there, mine, its, harm):
    there.begin("transfer", "WRITE", span(its, mine, 4096), "here")
    harm(there)


def initiator_in_write(here, there, mine, its, harm):
    here.areas[0][:64] = 0
    there.begin("transfer", "WRITE", span(its, mine, LARGE), "here")
    until("the first bytes", lambda: here.areas[0][:64].any())
    harm(there)


def initiator_in_read(here, there, mine, its, harm):
    there.begin("move", "READ", span(its, mine, LARGE), "here", b"read", 1_000)
    here.notifications("there")
    harm(there)


def initiator_between(here, there, mine, its, harm):
    there.transfer("WRITE", span(its, mine, 4096), "here", b"written")
    assert here.notifications("there") == [b"written"]
    harm(there)


def initiator_in_notifications(here, there, _mine, _its, harm):
    there.begin("notify_often", "here", b"x" * 1_000, 1_000_000)
    here.notifications("there")
    harm(there)


PHASES = {
    "target connects": target_in_connect,
    "target in WRITE": large_post("WRITE"),
    "target in READ": large_post("READ"),
    "target between": target_between,
    "target of notifications": target_of_notifications,
    "initiator connects": initiator_in_connect,
    "initiator in WRITE": initiator_in_write,
    "initiator in READ": initiator_in_read,
    "initiator between": initiator_between,
    "initiator in notifications": initiator_in_notifications,
}


def goes_on(here, bystander, seed):
    """The peer comes back under its name, and the two move bytes both ways. Others were served."""
    here.came.clear()
    with Peer("there", parameters=SHORT) as there:
        forget_if_known(here, "there")
        mine, its = here.add_area(MIB), there.add_area(MIB)
        here.know(there.metadata())
        there.know(here.metadata())
        here.fill(mine[0], seed)
        here.transfer("WRITE", span(mine, its, MIB), "there", b"back %d" % seed)
        assert there.notifications("here") == [b"back %d" % seed]
        assert there.is_filled(0, seed)
        there.fill(0, seed + 1)
        there.transfer("WRITE", span(its, mine, MIB), "here", b"again %d" % seed)
        # What the one before it had sent may come first.
        until("its word", lambda: b"again %d" % seed in here.notifications("there"))
        assert here.is_filled(mine[0], seed + 1)
        bystander.forget("here")
        bystander.know(here.metadata())
        bystander.transfer("READ", span((0, bystander.address(0), "DRAM", 0), mine, MIB), "here")
        assert bystander.is_filled(0, seed + 1)
        forget_if_known(here, "there")
        here.drop_area(mine[0])


def all_phases(harm):
    here = Agent("here", parameters=SHORT)
    with Peer("bystander") as bystander:
        bystander.add_area(MIB)
        bystander.know(here.metadata())
        for number, (name, phase) in enumerate(PHASES.items()):
            begin = time.monotonic()
            with Peer("there", parameters=SHORT) as there:
                mine, its = here.add_area(LARGE), there.add_area(LARGE)
                here.fill(mine[0], 1)
                there.fill(0, 2)
                here.areas[0] = here.areas[mine[0]]
                here.know(there.metadata())
                there.know(here.metadata())
                phase(here, there, mine, its, harm)
                # Whatever was under way, the memory is this program's again.
                taken = time.monotonic()
                here.drop_area(mine[0])
                assert time.monotonic() - taken < BOUND
                here.fill(mine[0], 3)
                there.process.kill()
                there.process.join()
                assert here.is_filled(mine[0], 3)
            here.areas[0] = here.areas[mine[0]] = None
            goes_on(here, bystander, 100 + 2 * number)
            print(f"  {name} ({time.monotonic() - begin:.1f} s)", flush=True)


def killed():
    """With SIGKILL."""
    all_phases(Peer.kill)


def stopped():
    """With SIGSTOP; it never goes on."""
    all_phases(Peer.freeze)


if __name__ == "__main__":
    run([killed, stopped])
