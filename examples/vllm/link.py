"""The network between the decode server and the prefill server's TCPX, which can hold a READ half way."""

import asyncio
import contextlib

# The prefill server listens at the first, and tells others the second, with the same port.
PREFILL, LINK = "127.0.0.1", "127.0.0.2"
CHUNK = 64 << 10
# Fewer bytes at once may be TCPX's own; these are a cache's.
PAYLOAD = 16 << 10
# TCPX moves reads of up to this length on the connection that leads through here, where both ends say so. No cache has more.
ALL = {"TCPX_LINK_BYTES": str(1 << 30)}


class Link:
    """Relays connections, and on demand holds the bytes of caches until the connections are cut."""

    def __init__(self, port):
        self.port = port
        self.listener = None
        self.ends = set()
        # How many bytes of caches still pass until one is held; None: all do.
        self.left = None
        self.held, self.released = asyncio.Event(), asyncio.Event()

    @property
    def environment(self):
        """What leads connections through here, in the environment of the prefill server."""
        return ALL | {"TCPX_LISTEN": f"{PREFILL}:{self.port}", "TCPX_ADVERTISE": LINK}

    async def __aenter__(self):
        self.listener = await asyncio.start_server(self.relay, LINK, self.port)
        return self

    async def __aexit__(self, *_error):
        self.listener.close()
        self.cut()

    async def hold(self, after):
        """Lets a number of bytes of caches pass, holds those that come next, and returns then."""
        self.held.clear()
        self.released.clear()
        self.left = after
        await self.held.wait()

    def cut(self):
        """Ends all connections at once. What was held is lost; new connections are relayed as ever."""
        self.left = None
        for end in list(self.ends):
            end.transport.abort()
        self.released.set()

    async def relay(self, reader, writer):
        """Relays one connection until either side ends it."""
        try:
            prefill_reader, prefill_writer = await asyncio.open_connection(PREFILL, self.port)
        except OSError:
            writer.close()
            return
        both = {writer, prefill_writer}
        self.ends |= both
        ways = [
            asyncio.create_task(self.forward(reader, prefill_writer, False)),
            asyncio.create_task(self.forward(prefill_reader, writer, True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.ends -= both
            for way in ways:
                way.cancel()
            for end in both:
                end.close()

    async def forward(self, source, sink, holds):
        """Forwards bytes one way until their source or sink ends."""
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                if holds and await self.held_back(len(data)):
                    return
                sink.write(data)
                await sink.drain()

    async def held_back(self, size):
        """Returns whether bytes of the prefill server are lost: then the connections were cut meanwhile."""
        if self.left is None or size < PAYLOAD:
            return False
        if self.left > 0:
            self.left -= size
            return False
        self.held.set()
        await self.released.wait()
        return True
