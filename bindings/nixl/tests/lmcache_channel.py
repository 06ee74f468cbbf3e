"""LMCache's channel `nixl`, unmodified: objects of its allocator between two processes on a CPU.

What is compared are the bytes of each object, by LMCache's own view of it, after reads and writes in an order of their own.
`tools/scripts/nixl-programs.sh` installs LMCache and runs this over TCPX, in clear and encrypted, and over UCX.
"""

import asyncio
import functools
import os
import pathlib
import random
import re
import socket
import tempfile
import threading
import time

import torch
from lmcache.v1.memory_allocators.paged_tensor_memory_allocator import PagedTensorMemoryAllocator
from lmcache.v1.transfer_channel import CreateTransferChannel

from agents import BOUND, DEADLINE, Peer, pattern, run, until

OBJECTS = 4096
# Keys and values of two layers for 16 tokens of 32 numbers: 4 KiB.
SHAPE, KIND = torch.Size([2, 2, 16, 32]), torch.float16
BYTES = 4096


class Channel:
    """A channel with as many objects as its allocator has, which are known by number."""

    def __init__(self, _name, config, _parameters):
        buffer = torch.zeros(OBJECTS * BYTES, dtype=torch.uint8)
        self.allocator = PagedTensorMemoryAllocator(buffer, [SHAPE], [KIND])
        self.objects = self.allocator.batched_allocate(SHAPE, KIND, OBJECTS)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.url = f"127.0.0.1:{free.getsockname()[1]}"
        self.is_async = config["async"]
        self.channel = CreateTransferChannel(
            "nixl",
            async_mode=self.is_async,
            role="both",
            buffer_ptr=self.allocator.buffer_ptr,
            buffer_size=self.allocator.buffer_size,
            align_bytes=self.allocator.align_bytes,
            tp_rank=0,
            peer_init_url=self.url,
            device=config["device"],
            backends=[config["backend"]],
            event_loop=self.loop,
        )

    def address(self):
        return self.url

    def _call(self, method, *arguments):
        """Calls a method of the channel, or the one for event loops in its place."""
        if not self.is_async:
            return getattr(self.channel, method)(*arguments)
        coroutine = getattr(self.channel, f"async_{method}")(*arguments)
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(DEADLINE)

    def meet(self, peer, url):
        self._call("lazy_init_peer_connection", f"{os.getpid()}", peer, url)
        assert self.channel.remote_xfer_handler_exists(peer)

    def fill(self, seed):
        """Gives each object bytes that no other one has."""
        bytes_of_all = pattern(seed, OBJECTS * BYTES)
        for number, made in enumerate(self.objects):
            made.byte_array.cast("B")[:] = bytes_of_all[number * BYTES : (number + 1) * BYTES]

    def wrong(self, seed, order):
        """How many objects are not those that a peer with this seed has in this order."""
        bytes_of_all = pattern(seed, OBJECTS * BYTES).tobytes()
        return sum(
            bytes(made.byte_array) != bytes_of_all[number * BYTES : (number + 1) * BYTES]
            for made, number in zip(self.objects, order, strict=True)
        )

    def read(self, peer, order):
        where = {"sender_id": peer, "remote_indexes": order}
        return self._call("batched_read", self.objects, where)

    def write(self, peer, order):
        where = {"receiver_id": peer, "remote_indexes": order}
        return self._call("batched_write", self.objects, where)

    def failure(self, peer, order):
        """After how many seconds a read ends with which error."""
        began = time.monotonic()
        try:
            self.read(peer, order)
        except Exception as error:  # pylint: disable=broad-except
            return f"{type(error).__name__}: {error}", time.monotonic() - began
        return "none", time.monotonic() - began


def page_says(folder, fact, least):
    """Waits until a page of metrics has the fact, and this number of bytes of its peers."""

    def said():
        for page in pathlib.Path(folder).glob("*.prom"):
            text = page.read_text()
            counts = re.findall(r"^tcpx_peer_bytes_total{.*} (\d+)$", text, re.M)
            if fact in text and sum(map(int, counts)) >= least:
                return True
        return False

    until(f"{fact} and {least} bytes", said)


def channels(backend, is_async, device="cpu", environment=None, check=lambda: None):
    """Reads and writes all objects, permuted; loses the owner, and goes on with another one."""
    config = {"backend": backend, "async": is_async, "device": device}
    order = list(range(OBJECTS))
    random.Random(7).shuffle(order)
    back = sorted(range(OBJECTS), key=order.__getitem__)

    def channel(name):
        return Peer(name, config, environment=environment, kind=Channel)

    with channel("reader") as reader:
        with channel("owner") as owner:
            reader.meet("owner", owner.address())
            owner.fill(11)
            assert reader.wrong(11, order) == OBJECTS
            assert reader.read("owner", order) == OBJECTS
            assert reader.wrong(11, order) == 0
            reader.fill(12)
            assert reader.write("owner", order) == OBJECTS
            assert owner.wrong(12, back) == 0
            check()
            owner.kill()
            error, seconds = reader.failure("owner", order)
            assert error != "none" and seconds < BOUND, (error, seconds)
            way = "for event loops" if is_async else "blocking"
            print(f"   {backend}, {device}, {way}: a read from an owner that was killed failed after {seconds:.2f} s: {error}")
        with channel("another") as another:
            reader.meet("another", another.address())
            another.fill(13)
            assert reader.read("another", order) == OBJECTS
            assert reader.wrong(13, order) == 0
            # Such a channel has threads that wait for ever.
            another.kill()
        reader.kill()


def over_tcpx(fact, device="cpu", **environment):
    """The same over TCPX with channels of both kinds: the pages of metrics have to have the fact."""
    for is_async in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            settings = environment | {"TCPX_METRICS_DIR": folder}
            # Read by one end, and written.
            check = functools.partial(page_says, folder, fact, 2 * OBJECTS * BYTES)
            channels("TCPX", is_async, device, settings, check)


def tcpx():
    over_tcpx('encrypted="false"')


def encrypted():
    over_tcpx('encrypted="true"', TCPX_ENCRYPTION="require")


def emulated_gpu():
    """As LMCache registers a GPU's memory."""
    over_tcpx('device="gpu0"', "cuda", TCPX_EMULATED_GPUS="1")


def ucx():
    for is_async in (False, True):
        channels("UCX", is_async)


if __name__ == "__main__":
    run([tcpx, encrypted, emulated_gpu, ucx])
