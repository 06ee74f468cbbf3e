"""A proxy of OpenAI completions before a prefill server and a decode server of vLLM.

usage: proxy.py --prefill URL --decode URL [--port PORT] [--deadline SECONDS]

Each request goes to the prefill server first, which computes the prompt and one token, and answers with what the decode
server needs to read the keys and values of the prompt. Both together have the deadline: what has no answer by then gets
504, and a server that cannot be reached 502.
"""

import argparse
import asyncio
import json
import time

import aiohttp
from aiohttp import web


class Refused(Exception):
    """A server's answer that is no completion."""

    def __init__(self, server, status, text):
        super().__init__(f"{server}: {text}")
        self.status = status


async def completion(session, server, url, request):
    """Returns a server's completion, or raises `Refused`."""
    async with session.post(f"{url}/v1/completions", json=request) as response:
        text = await response.text()
    if response.status != 200:
        raise Refused(server, response.status, text[:300])
    answer = json.loads(text)
    if answer["choices"][0]["finish_reason"] == "error":
        raise Refused(server, 500, "the cache could not be loaded")
    return answer


class Proxy:
    """The two servers, and how long a request may take, in seconds."""

    def __init__(self, prefill, decode, deadline):
        self.prefill, self.decode, self.deadline = prefill, decode, deadline
        self.session = None

    async def prefilled(self, request):
        """Returns the prefill server's word on where the cache of a request is."""
        asked = request | {
            "max_tokens": 1,
            "stream": False,
            "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False},
        }
        return (await completion(self.session, "prefill", self.prefill, asked))["kv_transfer_params"]

    async def decoded(self, request, cache):
        """Returns the decode server's completion from a cache elsewhere."""
        asked = request | {"kv_transfer_params": cache}
        return await completion(self.session, "decode", self.decode, asked)

    async def answer(self, incoming):
        """Answers one request of a client."""
        request = await incoming.json()
        if request.get("stream"):
            return failure(400, "this proxy does not stream")
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.deadline):
                return web.json_response(await self.decoded(request, await self.prefilled(request)))
        except TimeoutError:
            return failure(504, f"no answer within {time.monotonic() - began:.1f} s")
        except Refused as error:
            return failure(error.status, str(error))
        except aiohttp.ClientError as error:
            return failure(502, f"{type(error).__name__}: {error}")

    async def connections(self, _application):
        """Holds the connections to the servers while the proxy runs."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:
            self.session = session
            yield

    async def start(self, port):
        """Listens on the loopback, and returns what `cleanup` ends."""
        application = web.Application()
        application.router.add_post("/v1/completions", self.answer)
        application.cleanup_ctx.append(self.connections)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return runner


def failure(status, message):
    """Returns an error as OpenAI's interface has it."""
    return web.json_response({"error": {"message": message, "code": status}}, status=status)


async def main():
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefill", required=True)
    parser.add_argument("--decode", required=True)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--deadline", type=float, default=60)
    options = parser.parse_args()
    await Proxy(options.prefill, options.decode, options.deadline).start(options.port)
    print(f"completions at http://127.0.0.1:{options.port}/v1/completions", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
