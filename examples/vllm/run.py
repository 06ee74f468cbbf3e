"""Compares answers of a prefill and a decode server of vLLM with those of one server, and kills the prefill server.

Run by run.sh, which installs what this needs and names the folders.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from pathlib import Path

import aiohttp

import client
import model
from proxy import Proxy
from restarts import restarts
from servers import Server, free_port

# By name: the backend of NIXL, and the environment that both servers have.
TRANSPORTS = {
    "tcpx": ("TCPX", {"TCPX_LISTEN": "127.0.0.1:0"}),
    "ucx": ("UCX", {"UCX_TLS": "tcp"}),
    "tcpx-encrypted": ("TCPX", {"TCPX_LISTEN": "127.0.0.1:0", "TCPX_ENCRYPTION": "require"}),
}
# A machine with other work takes minutes to start a server.
START = 900
# How often the first request is sent: vLLM gives the meeting of two servers 5 s, too few for a machine with other work.
FIRST = 20


def options():
    """Returns the options."""
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", type=Path, required=True, help="folder of libplugin_TCPX.so")
    parser.add_argument("--work", type=Path, required=True, help="folder of the model and the logs")
    parser.add_argument("--transports", nargs="*", default=list(TRANSPORTS), choices=list(TRANSPORTS), metavar="NAME")
    parser.add_argument("--prompts", type=int, default=24, help="prompts of the comparison (default: 24)")
    parser.add_argument("--requests", type=int, default=500, help="requests while servers are killed (default: 500)")
    parser.add_argument("--kills", type=int, default=3, help="how often the prefill server is killed (default: 3)")
    parser.add_argument("--killed", default="tcpx", choices=list(TRANSPORTS), help="transport of that (default: tcpx)")
    parser.add_argument("--deadline", type=float, default=60, help="seconds of one request (default: 60)")
    return parser.parse_args()


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
        decode = self.server(f"{transport}-decode", "kv_consumer", backend, environment)
        async with self.servers(prefill, decode):
            proxy = Proxy(prefill.url, decode.url, self.asked.deadline)
            port = free_port()
            runner = await proxy.start(port)
            try:
                wrong = await self.compare(transport, f"http://127.0.0.1:{port}", decode)
                wrong += await self.control(transport, proxy)
                if transport == self.asked.killed and self.asked.kills:
                    wrong += await restarts(self, f"http://127.0.0.1:{port}", prefill, START)
            finally:
                await runner.cleanup()
        return [f"{transport}: {text}" for text in wrong]

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
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:
        run = Run(asked, session)
        await run.alone()
        for transport in asked.transports:
            wrong += await run.pair(transport)
    for text in wrong:
        print(f"WRONG {text}")
    print("FAILED" if wrong else "PASSED")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
