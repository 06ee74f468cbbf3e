"""Requests while the prefill server is killed and started again, and stopped, inside READs of the decode server."""

import asyncio
import time
from itertools import groupby

import client

AT_ONCE = 4
# Seconds between a request that failed and the next of the same client.
PAUSE = 10
# Seconds between two looks at the clock.
TICK = 0.1
# Bytes of caches that reach the decode server before the rest is held: fewer than a READ has.
HALF = client.cache_bytes(" ") // 2


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
        # The longest time, in seconds, for which this program had no processor: the proxy and the link are part of it.
        self.still = 0.0

    def seconds(self):
        """Returns the seconds since the first request."""
        return time.monotonic() - self.began

    async def watch(self):
        """Measures for how long this program stands still."""
        while True:
            began = self.seconds()
            await asyncio.sleep(TICK)
            self.still = max(self.still, self.seconds() - began - TICK)

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

    def lost(self, moment):
        """Returns the requests that were under way at a moment, and failed after it in the decode server."""
        return [
            number
            for number, (began, outcome) in sorted(self.outcomes.items())
            if began <= moment <= began + outcome.seconds and (outcome.error or "").startswith("decode: ")
        ]

    async def loss(self, moment):
        """Waits for a request that failed so."""
        async with self.progress:
            await self.progress.wait_for(lambda: self.lost(moment))


class Interruptions:
    """What happens to the prefill server meanwhile, and how often it happened inside a READ."""

    def __init__(self, load, prefill, decode, link, start):
        self.load, self.prefill, self.decode, self.link, self.start = load, prefill, decode, link, start
        self.asked = load.run.asked
        self.done = self.inside = 0

    def say(self, text):
        """Prints what has just happened."""
        print(f"    {self.load.seconds():.1f} s: {text}, {self.load.sent} requests sent", flush=True)

    async def within(self, waiting):
        """Waits for as long as a request may take; returns whether that was long enough."""
        try:
            async with asyncio.timeout(self.asked.deadline):
                await waiting
        except TimeoutError:
            return False
        return True

    async def strike(self, done, act):
        """Does something to the prefill server when a READ is half way, and sees it fail."""
        before = self.decode.failed_reads()
        if not await self.within(self.link.hold(HALF)):
            self.link.cut()
            self.say("no READ came")
            return
        act()
        moment = self.load.seconds()
        self.say(f"the prefill server was {done} inside a READ")
        if not await self.within(self.load.loss(moment)):
            self.say("no request failed for it")
            return
        lost = self.load.lost(moment)
        ends = [sum((began, outcome.seconds)) - moment for began, outcome in map(self.load.outcomes.get, lost)]
        failed = self.decode.failed_reads() - before
        print(f"    READs that failed: {failed}; their requests: {ranges(lost)}, {span(ends, 2)} s later", flush=True)
        self.inside += failed > 0

    def kill(self):
        """Kills the prefill server, and what is on its way from it."""
        self.prefill.kill()
        if self.link:
            self.link.cut()

    async def kills(self, between):
        """Kills it again and again, and starts it."""
        for _ in range(self.asked.kills):
            if not await self.load.answers(between):
                return
            if self.link:
                await self.strike("killed", self.kill)
            self.kill()
            if not self.link:
                self.say("the prefill server was killed")
            self.prefill.start()
            await self.prefill.ready(self.load.run.session, self.start)
            self.say("it serves again")
            self.done += 1

    async def stops(self, between):
        """Stops it, and lets it go on when the READ has failed."""
        for _ in range(self.asked.stops if self.link else 0):
            if not await self.load.answers(between):
                return
            await self.strike("stopped", self.prefill.stop)
            self.prefill.go_on()
            self.link.cut()
            self.say("it goes on")
            self.done += 1

    async def all(self):
        """Does all that was asked for, each with answers before and after it; returns what was wrong."""
        due = self.asked.kills + (self.asked.stops if self.link else 0)
        between = max(1, self.load.total // (4 * (due + 1)))
        await self.kills(between)
        await self.stops(between)
        answered = await self.load.answers(between)
        if self.link:
            print(f"    {self.inside} of {due} kills and stops fell inside a READ", flush=True)
        wrong = []
        if self.done < due or not answered:
            wrong.append(f"requests ran out with {self.done} of {due} kills and stops: give more --requests")
        if self.link and self.inside < due:
            wrong.append(f"only {self.inside} of {due} kills and stops fell inside a READ")
        return wrong


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
    print(f"    the proxy stood still for {load.still:.1f} s at most")
    return wrong


async def restarts(run, url, prefill, decode, link, start):
    """Sends requests while the prefill server is killed and started again, and stopped; returns what went wrong."""
    asked = run.asked
    stops = f", stops: {asked.stops}" if link else ""
    print(f"{asked.killed}: {asked.requests} requests, {AT_ONCE} at once; kills of the prefill server: {asked.kills}{stops}")
    load = Load(run, url, asked.requests)
    clients = [asyncio.create_task(load.client()) for _ in range(AT_ONCE)]
    watch = asyncio.create_task(load.watch())
    try:
        wrong = await Interruptions(load, prefill, decode, link, start).all()
        await asyncio.gather(*clients)
    finally:
        for task in (watch, *clients):
            task.cancel()
    return wrong + report(load)
