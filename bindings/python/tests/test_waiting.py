"""Waits: with deadlines, in tasks, in threads, and what ends them."""

import asyncio
import sys
import threading
import time

import pytest

import tcpx
from conftest import PATIENCE


@pytest.fixture
def pending(pair):
    """A receive whose message does not come."""
    here, there = pair
    receive = here.recv("there", bytearray(8), tag=1)
    return receive, lambda: there.send("here", b"12345678", tag=1)


def test_a_wait_that_is_over_leaves_the_operation(pending):
    receive, send = pending
    with pytest.raises(tcpx.Timeout) as over:
        receive.wait(0.1)
    assert over.value.diagnosis == "TCPX-902" and not receive.done()
    with pytest.raises(tcpx.Timeout):
        receive.wait(0)
    send()
    receive.wait(PATIENCE)
    assert receive.done() and receive.exception() is None
    receive.wait(0)


def test_an_operation_that_has_a_time_is_given_up(pair):
    here, _ = pair
    receive = here.recv("there", bytearray(8), timeout=0.1)
    with pytest.raises(tcpx.Timeout) as over:
        receive.wait(PATIENCE)
    assert receive.done() and over.value.diagnosis == "TCPX-850"


def test_cancelling_gives_the_operation_up(pending):
    receive, _ = pending
    receive.cancel()
    with pytest.raises(tcpx.Cancelled):
        receive.wait(PATIENCE)
    assert isinstance(receive.exception(), tcpx.Cancelled)


def test_cancelling_a_task_gives_its_operation_up(pending):
    receive, _ = pending

    async def hurry():
        await asyncio.wait_for(awaited(receive), 0.1)

    with pytest.raises(TimeoutError if sys.version_info >= (3, 11) else asyncio.TimeoutError):
        asyncio.run(hurry())
    with pytest.raises(tcpx.Cancelled):
        receive.wait(PATIENCE)


async def awaited(transfer):
    await transfer


def test_many_tasks_and_threads_wait_for_one_operation(pending):
    receive, send = pending
    ended = []

    def wait():
        receive.wait(PATIENCE)
        ended.append(1)

    def run():
        asyncio.run(awaited(receive))
        ended.append(1)

    threads = [threading.Thread(target=target) for target in (wait, wait, run, run)]
    for thread in threads:
        thread.start()

    async def both():
        tasks = [asyncio.ensure_future(awaited(receive)) for _ in range(2)]
        await asyncio.sleep(0)
        send()
        await asyncio.gather(*tasks)

    asyncio.run(both())
    for thread in threads:
        thread.join(PATIENCE)
    assert len(ended) == 4


def test_other_threads_run_during_a_wait(pending):
    receive, send = pending
    counted = 0
    waiting = threading.Thread(target=receive.wait, args=(PATIENCE,))
    waiting.start()
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        counted += 1
    send()
    waiting.join(PATIENCE)
    assert counted > 1000 and receive.done()


def test_an_event_loop_runs_while_it_awaits(pending):
    receive, send = pending

    async def both():
        task = asyncio.ensure_future(awaited(receive))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        send()
        await task

    asyncio.run(both())


def test_threads_use_one_agent_at_a_time_and_together(pair):
    here, there = pair
    targets = [bytearray(64 << 10) for _ in range(4)]
    remotes = [tcpx.Remote(there.export(target).descriptor) for target in targets]

    def work(index):
        for turn in range(50):
            here.write(bytes([turn]) * (64 << 10), remotes[index]).wait(PATIENCE)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert all(target == bytes([49]) * (64 << 10) for target in targets)


@pytest.mark.parametrize("way", ["wait", "note", "await"])
def test_an_interrupt_ends_a_wait(agents, children, way):
    agent = agents("server")
    child = children("wait_for_ever", way)
    child.say(agent.address)
    assert child.hear() == [b"waits"]
    child.interrupt()
    assert child.hear() == [b"interrupted"]
    assert child.end()[0] == 0


def test_notifications_end_with_the_agent(pair):
    here, there = pair
    for number in range(3):
        here.notify("there", b"%d" % number)

    async def collect():
        seen = []
        async for note in there.notifications():
            seen.append(note.data)
            if len(seen) == 3:
                asyncio.ensure_future(there.aclose())
        return seen

    assert asyncio.run(collect()) == [b"0", b"1", b"2"]
    assert list(there.notifications()) == []


def test_a_wait_for_notifications_has_a_deadline(pair):
    here, there = pair
    with pytest.raises(tcpx.Timeout, match="no notification"):
        there.wait_notification(0.05)
    here.notify("there", b"")
    assert there.wait_notification(PATIENCE) == ("here", b"")
    with pytest.raises(tcpx.Error) as refused:
        here.notify("there", bytes(65_537))
    assert refused.value.diagnosis
