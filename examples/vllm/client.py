"""Requests of a client, with their deadlines, and how their answers compare."""

import asyncio
import random
import time
from dataclasses import dataclass

import aiohttp

from model import TOKEN_BYTES
from servers import BLOCK, LONGEST

ANSWER = 32
# How far apart logarithms of probabilities may be for the same bytes: sums in another order differ in the last digits.
CLOSE = 1e-3
WORDS = "cache block token layer head prompt answer server decode prefill network socket copy page lease".split()


def prompts(count, seed=1):
    """Returns prompts of one to fifteen blocks, whose tokens are their bytes: the same for the same seed."""
    chooser = random.Random(seed)
    made = []
    for _ in range(count):
        length = chooser.randint(20, LONGEST - ANSWER)
        text = " ".join(chooser.choice(WORDS) for _ in range(length))
        made.append(text[:length])
    return made


def cache_bytes(prompt):
    """Returns how many bytes the whole blocks of a prompt's cache have."""
    return -(-len(prompt) // BLOCK) * BLOCK * TOKEN_BYTES


def request(prompt):
    """Returns the request for the likeliest answer to a prompt."""
    return {
        "model": "tiny",
        "prompt": prompt,
        "max_tokens": ANSWER,
        "temperature": 0,
        "logprobs": 0,
        "return_token_ids": True,
    }


@dataclass
class Outcome:
    """What came of a request, after how many seconds: tokens and logarithms of their probabilities, or an error."""

    seconds: float
    tokens: list | None = None
    logarithms: list | None = None
    error: str | None = None
    out_of_time: bool = False


def read(answer, seconds):
    """Returns the outcome that a completion is."""
    choice = answer["choices"][0]
    return Outcome(seconds, choice["token_ids"], choice["logprobs"]["token_logprobs"])


async def ask(session, url, prompt, deadline):
    """Sends a prompt; returns its outcome, within the deadline and 10 s for the proxy to say that it is over."""
    began = time.monotonic()

    def failed(error, out_of_time=False):
        return Outcome(time.monotonic() - began, error=error, out_of_time=out_of_time)

    try:
        timeout = aiohttp.ClientTimeout(deadline + 10)
        async with session.post(f"{url}/v1/completions", json=request(prompt), timeout=timeout) as response:
            answer = await response.json()
    except TimeoutError:
        return failed("no answer at all", True)
    except aiohttp.ClientError as error:
        return failed(f"{type(error).__name__}: {error}")
    if response.status != 200:
        return failed(answer["error"]["message"], response.status == 504)
    return read(answer, time.monotonic() - began)


async def ask_all(session, url, texts, deadline, at_once=4):
    """Sends prompts, some at a time; returns their outcomes in the same order."""
    places = asyncio.Semaphore(at_once)

    async def one(prompt):
        async with places:
            return await ask(session, url, prompt, deadline)

    return await asyncio.gather(*map(one, texts))


def same(one, other):
    """Returns whether two outcomes are the same answer."""
    return bool(one.tokens) and one.tokens == other.tokens and distance(one, other) <= CLOSE


def distance(one, other):
    """Returns how far apart the logarithms of the probabilities of two answers are."""
    return max(abs(a - b) for a, b in zip(one.logarithms, other.logarithms, strict=True))
