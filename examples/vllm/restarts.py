"""Requests while the prefill server is killed and started again."""

import asyncio
import time
from itertools import groupby

import client

AT_ONCE = 4
# Seconds between a request that failed and the next of the same client.
PAUSE = 10


class Load:
    """Clients that send requests one after the other, and what came of each."""

    def __init__(self, run, url, total):
        self.run, self.url, self.total = run, url, total
        self.began = time.monotonic()
        self.sent = 0
        # By request: when it began, in seconds, and its outcome.
        self.outcomes = {}
        self.answered = 0
        self.progress = asyncio.Condition()

    def seconds(self):
        """Returns the seconds since the first request."""
        return time.monotonic() - self.began

    async def client(self):
        """Sends requests until all are sent."""
        while self.sent < self.total:
            number = self.sent
            self.sent += 1
            began = self.seconds()
            prompt = self.run.prompts[number % len(self.run.prompts)]
            outcome = await client.ask(self.run.session, self.url, prompt, self.run.asked.deadline)
            async with self.progress:
                self.outcomes[number] = began, outcome
                self.answered += outcome.error is None
                self.progress.notify_all()
            if outcome.error and self.sent < self.total:
                await asyncio.sleep(PAUSE)

    async def answers(self, more):
        """Waits for a number of answers more; returns whether they came before the last request."""
        async with self.progress:
            goal = self.answered + more
            await self.progress.wait_for(lambda: self.answered >= goal or len(self.outcomes) == self.total)
            return self.answered >= goal

    async def kills(self, server, times, start):
        """Kills a server again and again, with requests under way; returns how often it was up again, and answered."""
        between = max(1, self.total // (4 * (times + 1)))
        for kill in range(times):
            if not await self.answers(between):
                return kill
            server.kill()
            killed = self.seconds()
            print(f"    {killed:.1f} s: the prefill server was killed, {self.sent} requests sent", flush=True)
            server.start()
            await server.ready(self.run.session, start)
            print(f"    {self.seconds():.1f} s: it serves again, {self.sent} requests sent", flush=True)
        return times if await self.answers(between) else times - 1


def span(values, digits):
    """Returns the least and the largest of some values as text."""
    least, most = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return least if least == most else f"{least} to {most}"


def ranges(numbers):
    """Returns ascending numbers as text, those that follow each other as ranges."""
    runs = groupby(enumerate(numbers), key=lambda place: place[1] - place[0])
    return ", ".join(span([number for _, number in run], 0) for _, run in runs)


def report(load):
    """Prints which requests failed, after how many seconds; returns what is wrong."""
    failed = [(number, *load.outcomes[number]) for number in sorted(load.outcomes) if load.outcomes[number][1].error]
    for error, group in groupby(failed, key=lambda each: each[2].error[:160]):
        alike = list(group)
        numbers = ranges([number for number, _, _ in alike])
        sent = span([began for _, began, _ in alike], 1)
        after = span([outcome.seconds for *_, outcome in alike], 2)
        print(f"    failed: {numbers}; sent at {sent} s, after {after} s: {error}")
    wrong = [f"request {number} hung" for number, _, outcome in failed if outcome.out_of_time]
    for number, (_, outcome) in load.outcomes.items():
        if not outcome.error and not client.same(outcome, load.run.expected[number % len(load.run.expected)]):
            wrong.append(f"request {number}: another answer")
    longest = max(outcome.seconds for _, outcome in load.outcomes.values())
    print(f"    {load.answered} answers, {len(failed)} failed, {len(wrong)} wrong or hung; longest {longest:.1f} s")
    return wrong


async def restarts(run, url, server, start):
    """Sends requests while a server is killed and started again; returns what went wrong."""
    asked = run.asked
    print(f"{asked.killed}: {asked.requests} requests, {AT_ONCE} at once; {asked.kills} kills of the prefill server")
    load = Load(run, url, asked.requests)
    clients = [asyncio.create_task(load.client()) for _ in range(AT_ONCE)]
    try:
        done = await load.kills(server, asked.kills, start)
        await asyncio.gather(*clients)
    finally:
        for task in clients:
            task.cancel()
    wrong = report(load)
    if done < asked.kills:
        wrong.append(f"requests ran out after {done} of {asked.kills} kills: give more --requests")
    return wrong
