"""Compares answers of a prefill and a decode server of vLLM with those of one server, and kills the prefill server.

Run by run.sh, which installs what this needs and names the folders.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time

import aiohttp

import client
import model
from link import ALL, Link
from options import TRANSPORTS, options
from proxy import Proxy
from restarts import restarts
from servers import Server, free_port

# A machine with other work takes minutes to start a server.
START = 900
# How often the first request is sent: vLLM gives the meeting of two servers 5 s, too few for a machine with other work.
FIRST = 20


class Run:
    """One run: what was asked for, and what one server answered."""

    def __init__(self, asked, session):
        self.asked, self.session = asked, session
        self.model = asked.work / "model"
        self.prompts = client.prompts(asked.prompts)
        self.expected = []

    @contextlib.asynccontextmanager
    async def servers(self, *servers):
        """Starts servers, and kills them at the end."""
        try:
            for server in servers:
                print(f"{server.log.stem}: a server starts, see {server.log}", flush=True)
                server.start()
            await asyncio.gather(*(server.ready(self.session, START) for server in servers))
            yield servers
        finally:
            for server in servers:
                server.kill()

    def server(self, name, *more):
        """Returns a server that is not started, with an empty log."""
        log = self.asked.work / f"{name}.log"
        log.unlink(missing_ok=True)
        return Server(self.model, log, *more)

    async def alone(self):
        """Asks one server without transfers; its answers are those to expect."""
        async with self.servers(self.server("alone")) as (server,):
            self.expected = await client.ask_all(self.session, server.url, self.prompts, self.asked.deadline)
        failed = [outcome.error for outcome in self.expected if outcome.error]
        if failed:
            raise SystemExit(f"one server alone failed: {failed[0]}")
        different = len({tuple(outcome.tokens) for outcome in self.expected})
        if different < len(self.prompts) * 3 // 4:
            raise SystemExit(f"only {different} of {len(self.prompts)} answers differ: they would show nothing")
        print(f"alone: {len(self.prompts)} prompts, {different} different answers", flush=True)

    async def pair(self, transport):
        """Runs a pair of servers over a transport; returns what went wrong."""
        backend, environment = TRANSPORTS[transport]
        if backend == "TCPX":
            environment = environment | {"NIXL_PLUGIN_DIR": str(self.asked.plugin.resolve())}
        prefill = self.server(f"{transport}-prefill", "kv_producer", backend, environment)
        # Of TCPX; what counts is what both ends allow: the default, until the prefill server has a link before it.
        decode = self.server(f"{transport}-decode", "kv_consumer", backend, environment | ALL)
        async with self.servers(prefill, decode):
            proxy = Proxy(prefill.url, decode.url, self.asked.deadline)
            port = free_port()
            runner = await proxy.start(port)
            try:
                wrong = await self.compare(transport, f"http://127.0.0.1:{port}", decode)
                wrong += await self.control(transport, proxy)
                if transport == self.asked.killed and self.asked.kills:
                    wrong += await self.interrupt(backend, f"http://127.0.0.1:{port}", prefill, decode)
            finally:
                await runner.cleanup()
        return [f"{transport}: {text}" for text in wrong]

    async def interrupt(self, backend, url, prefill, decode):
        """Sends requests while the prefill server is killed and stopped: with TCPX inside READs, which a link holds."""
        if backend != "TCPX":
            return await restarts(self, url, prefill, decode, None, START)
        async with Link(free_port()) as link:
            prefill.kill()
            prefill.environment |= link.environment
            print("    the prefill server starts again, with a link before it", flush=True)
            prefill.start()
            await prefill.ready(self.session, START)
            await self.meet(self.asked.killed, url)
            return await restarts(self, url, prefill, decode, link, START)

    async def compare(self, transport, url, decode):
        """Asks the pair; returns which answers are not those of one server, and bytes that did not come by transfer."""
        await self.meet(transport, url)
        before = await decode.transferred(self.session)
        began = time.monotonic()
        outcomes = await client.ask_all(self.session, url, self.prompts, self.asked.deadline)
        seconds = time.monotonic() - began
        wrong, furthest = [], 0.0
        for number, (outcome, expected) in enumerate(zip(outcomes, self.expected, strict=True)):
            if outcome.error:
                wrong.append(f"prompt {number}: {outcome.error}")
            elif not client.same(outcome, expected):
                wrong.append(f"prompt {number}: another answer")
            else:
                furthest = max(furthest, client.distance(outcome, expected))
        equal = len(outcomes) - len(wrong)
        after = await decode.transferred(self.session)
        counted = {name: after[name] - before[name] for name in after}
        due = {
            "transfers": len(self.prompts),
            "bytes": sum(map(client.cache_bytes, self.prompts)),
            "failed": 0,
            "received tokens": sum(map(len, self.prompts)),
            "computed tokens": 0,
        }
        wrong += [f"{counted[name]} {name}, not {due[name]}" for name in due if counted[name] != due[name]]
        print(f"{transport}: {equal} of {len(outcomes)} answers equal, logarithms within {furthest:.1e}")
        print(f"    {counted['bytes']} bytes in {counted['transfers']} transfers, {seconds:.1f} s")
        if line := decode.carried():
            print(f"    transport={line}")
        elif transport != "ucx":
            wrong.append("no line of the log says what carries the bytes")
        if transport == "tcpx-encrypted" and "encrypted=true" not in (line or ""):
            wrong.append("the log does not say that the bytes are encrypted")
        sys.stdout.flush()
        return wrong

    async def meet(self, transport, url):
        """Sends the first request, in which the two servers meet, until it is answered."""
        for tries in range(1, FIRST + 1):
            outcome = await client.ask(self.session, url, self.prompts[0], self.asked.deadline)
            if not outcome.error:
                print(f"{transport}: the servers met, with request {tries}", flush=True)
                return
            print(f"{transport}: request {tries} failed after {outcome.seconds:.2f} s: {outcome.error[:160]}")
        raise SystemExit(f"{transport}: the servers do not meet")

    async def control(self, transport, proxy):
        """Decodes a prompt from the cache of another of the same length: unless that differs, nothing was compared."""
        expected = self.expected[0]
        prompt = client.request(self.prompts[0])
        other = client.request(self.prompts[0][::-1])
        answer = client.read(await proxy.decoded(prompt, await proxy.prefilled(other)), 0)
        if client.same(answer, expected):
            return ["another prompt's cache gives the same answer"]
        print("    another prompt's cache gives another answer", flush=True)
        return []


async def main():
    """Runs all; the status is 1 when something went wrong."""
    asked = options()
    model.make(asked.work / "model")
    wrong = []
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        # Servers that are killed leave sockets and folders behind.
        with tempfile.TemporaryDirectory(prefix="tcpx-vllm-", ignore_cleanup_errors=True) as temporary:
            os.environ["TMPDIR"] = temporary
            run = Run(asked, session)
            await run.alone()
            for transport in asked.transports:
                wrong += await run.pair(transport)
    for text in wrong:
        print(f"WRONG {text}")
    print("FAILED" if wrong else "PASSED")
    return 1 if wrong else 0


if __name__ == "__main__":
    # The servers end with this program, whatever ends it.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    sys.exit(asyncio.run(main()))
