"""Agents: sessions of tcpx, their peers, and everything that is under way with them."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import socket
import warnings
import weakref
from collections.abc import Sequence
from types import TracebackType

from . import _native
from ._errors import Timeout
from ._loops import Loops
from ._memory import Access, Buffer, RemoteLike
from ._peers import Notification, Notifications, Peer, PeerLike
from ._posting import post_access, post_tagged
from ._streams import check_stream
from ._transfer import Transfer
from ._under_way import UnderWay
from .stats import AgentStats

_numbers = itertools.count(1)
_live: weakref.WeakSet[Agent] = weakref.WeakSet()


class Agent:
    """A session: it has a name and an address, memory, peers, and operations under way.

    An agent covers the host and all GPUs; with `gpu`, the host and that one. It serves peers by a
    thread of its own, which is not one of Python's. Any thread and any event loop may use it.
    After a fork it belongs to the parent: in the child, calls raise `Error` with TCPX-827.

    `name` is what peers call the agent, at most 64 bytes; without one it is made up of host and
    process. The other options have the names, units and defaults of the C library and the backend
    for NIXL; None is the value of the environment (`TCPX_CHANNELS` for `channels`), or else the
    default. docs/settings.md has them all.

    Raises `ConfigError` for options that do not fit, and where the plugin cannot be used.
    """

    # Until the session is there.
    _closed = True

    def __init__(
        self,
        name: str | None = None,
        *,
        plugin: str | None = None,
        unpack: str | None = None,
        nics: str | Sequence[str] | None = None,
        listen: str | None = None,
        advertise: str | Sequence[str] | None = None,
        gpu: int | None = None,
        emulated_gpus: int | None = None,
        channels: int | None = None,
        chunk_bytes: int | None = None,
        recv_window: int | None = None,
        send_window: int | None = None,
        connect_timeout_ms: int | None = None,
        close_timeout_ms: int | None = None,
        peer_timeout_ms: int | None = None,
        spin_us: int | None = None,
        staging_bytes: int | None = None,
        eager_bytes: int | None = None,
        eager_buffer_bytes: int | None = None,
        link_bytes: int | str | None = None,
        notification_bytes: int | None = None,
        kept_for_peers_bytes: int | None = None,
        preflight: bool | None = None,
        keep_sigpipe: bool | None = None,
        encryption: str | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
    ) -> None:
        options = dict(locals())
        for own in ("self", "name"):
            del options[own]
        if name is None:
            name = f"{socket.gethostname()[:32]}-{os.getpid()}-{next(_numbers)}"
        self.name: str = name
        self._session = _native.Session(name, options)
        self._closed = False
        self._process = os.getpid()
        # Buffers whose descriptors peers may have.
        self._exports: set[Buffer] = set()
        # Names of peers by the owner that their descriptors name.
        self._owners: dict[bytes, str] = {}
        self._loops = Loops(self)
        self._under_way = UnderWay(self._session, self._loops)
        _live.add(self)

    # Peers

    @property
    def address(self) -> bytes:
        """Name of this agent and how to reach it, for `add` of other agents.

        It holds a secret: send it over a channel that is trusted.
        """
        return self._session.address()

    def add(self, address: bytes, name: str | None = None) -> Peer:
        """Makes another agent a peer, by its `address`, and begins to connect to it.

        `name` is what this agent calls it, instead of its own name. One of two agents is enough:
        the other knows the peer by its name once it is connected. Does not block. Raises
        `ConfigError` for bytes that are no address.
        """
        name, owner = self._session.add(address, name)
        self._owners[owner] = name
        self._under_way.arrivals.add_peer(name)
        return Peer(self, name)

    def peer(self, name: str) -> Peer:
        """Returns a peer by its name: one that was added, has come in, or will."""
        return Peer(self, name)

    def connect(self, peer: PeerLike) -> Transfer:
        """Returns a transfer that is done when the peer is up.

        Operations do this by themselves; this is for programs that want to know. A peer that was
        not added is waited for. Ends with `PeerLost` when it cannot be reached within
        `connect_timeout_ms`.
        """
        transfer = Transfer(self, self._under_way.context(), str(peer), None)
        self._under_way.begin(transfer)
        return transfer

    def disconnect(self, peer: PeerLike) -> None:
        """Says goodbye to a peer, for at most `close_timeout_ms`. What is matched is finished first.

        Other operations with it end with `Closed`. Raises `Timeout` when the peer has not answered,
        `PeerLost` when it has gone meanwhile; the name is free in any case.
        """
        self._session.disconnect(str(peer))

    # Memory

    def export(
        self,
        object: object,
        *,
        access: Access | None = None,
        gpu: int | None = None,
        stream: int | None = None,
    ) -> Buffer:
        """Makes the memory of an object known, so that it can be moved, and read or written by peers.

        `object` is contiguous memory: anything with the buffer protocol (bytes, bytearray,
        memoryview, numpy.ndarray), DLPack (torch.Tensor, cupy.ndarray) or
        `__cuda_array_interface__`. Objects of the last kind do not name their GPU: the driver knows
        it, or `gpu` is its CUDA ordinal. `access` is what the descriptor allows peers: "read", "write" or "read-write"; without it as much as
        the memory allows.

        `stream` is the one in which a GPU was last given work on the memory, as in DLPack: its
        handle, 1 for the legacy default stream, which None means too, 2 for the default stream of
        this thread, -1 when there is nothing to wait for. The descriptor is made after that work.

        The bytes are not copied. Peers that have the descriptor use them at any time: agree with
        them on when. Raises `BadMemory` for memory that is empty, or not contiguous in the order of
        its elements; `TypeError` for an object without memory.
        """
        memory = self._session.register(object, gpu)
        if access is None:
            access = "read" if memory.readonly else "read-write"
        return Buffer(self, memory, access, memory.mark(check_stream(stream)))

    # Operations

    def read(
        self,
        local: object,
        remote: RemoteLike | Sequence[RemoteLike],
        *,
        peer: PeerLike | None = None,
        notify: bytes | None = None,
        timeout: float | None = None,
        stream: int | None = None,
    ) -> Transfer:
        """Reads memory of a peer into memory of this agent. The peer's program does nothing for it.

        `local` is a `Buffer`, a part of one, or an object as `export` takes it, which is made known
        for this operation alone. `remote` is a descriptor or a `Remote`. Both may be lists, whose
        members are paired: sizes in bytes must be equal. `notify` are bytes that the peer gets
        afterwards, `peer` names the owner of `remote` if it was not added here, and an operation
        that has not ended after `timeout` seconds is given up.

        Memory of a GPU is moved after what its `stream` was given before, numbered as for `export`,
        and the call does not wait for it. When the transfer has ended, every stream may use the
        memory.

        Ends with `Refused`, `BadMemory`, `PeerLost` or `Timeout`; raises the first two at once
        where they show here.
        """
        return post_access(self, True, local, remote, peer, notify, timeout, stream)

    def write(
        self,
        local: object,
        remote: RemoteLike | Sequence[RemoteLike],
        *,
        peer: PeerLike | None = None,
        notify: bytes | None = None,
        timeout: float | None = None,
        stream: int | None = None,
    ) -> Transfer:
        """Writes memory of this agent into memory of a peer: done when all bytes are in place there.

        `notify` are bytes that the peer's program gets when they are. All else as for `read`.
        """
        return post_access(self, False, local, remote, peer, notify, timeout, stream)

    def send(
        self,
        peer: PeerLike,
        object: object,
        *,
        tag: int = 0,
        timeout: float | None = None,
        stream: int | None = None,
    ) -> Transfer:
        """Sends memory to the peer's receive with the same tag and size: done when it may be reused.

        `object` is as `local` of `read`, except that it is no list. Equal tags match in the order
        of posting. An agent of all devices sends and receives memory of the host only, and raises
        `BadMemory` for a GPU's, which it reads and writes; one with `gpu` also sends and receives
        that GPU's.

        With a peer that is not up yet it begins when the peer is: in the event loop, in a wait, or
        with the next call to this agent.
        """
        return post_tagged(self, True, peer, object, tag, timeout, stream)

    def recv(
        self,
        peer: PeerLike,
        object: object,
        *,
        tag: int = 0,
        timeout: float | None = None,
        stream: int | None = None,
    ) -> Transfer:
        """Receives into memory what the peer sends with the same tag: done when all bytes are there.

        Ends with `BadMemory` when the sizes differ. Raises `BadMemory` for memory that is read-only.
        All else as for `send`.
        """
        return post_tagged(self, False, peer, object, tag, timeout, stream)

    # Notifications

    def notify(self, peer: PeerLike, data: bytes) -> None:
        """Sends 0 to 65,536 bytes to the peer's program, behind earlier notifications.

        Does not block: what has no room at the peer waits here. Raises `Error` with TCPX-836 when as
        much waits already as `notification_bytes` allows. When notifications were lost because the
        peer could not be reached, the next call raises the peer's error, and sends nothing.
        """
        self._session.notify(str(peer), data)

    def notifications(self) -> Notifications:
        """Returns an iterator over the notifications of all peers, for `async for` and for `for`.

        Each notification is given out once, whatever the number of iterators. The iteration ends
        when the agent is closed.
        """
        return Notifications(self)

    def wait_notification(self, timeout: float | None = None) -> Notification:
        """Waits for a notification, for at most `timeout` seconds. Raises `Timeout`, `Closed`."""
        return self._under_way.wait_note(timeout)

    # What it does

    def stats(self) -> AgentStats:
        """Returns what carries the bytes of each peer, and what the agent has counted.

        Does not block. `AgentStats.rates` has the speed of each peer between two of them.
        """
        return AgentStats.read(self._session.stats())

    def metrics(self) -> str:
        """Returns what the agent has done, in the text format of Prometheus."""
        return self._session.metrics()

    # End

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Says goodbye to all peers, for at most `close_timeout_ms`, and ends the agent.

        What is under way ends with `Closed`, and iterators over notifications end. Buffers of the
        agent are of no use afterwards. Memory that a hung GPU or plugin still uses stays alive.
        Closing a closed agent does nothing.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._session.close()
        except Timeout:
            # Peers that are gone do not answer; all is closed anyway.
            pass
        finally:
            self._end()

    async def aclose(self) -> None:
        """Does the same as `close`, without holding up the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _end(self) -> None:
        """Ends what waits for something of this agent, after the session."""
        self._under_way.end()
        self._exports.clear()
        self._loops.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # In a forked child the agent is the parent's.
        if not self._closed and os.getpid() == self._process:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def __repr__(self) -> str:
        return f"<tcpx.Agent {self.name}{', closed' if self._closed else ''}>"


@atexit.register
def _close_all() -> None:
    """Closes all agents: nothing may touch memory of the interpreter when it ends."""
    for agent in list(_live):
        try:
            agent.close()
        except Exception:
            # In a forked child, say: the agent is the parent's.
            pass
    _native.await_waiters(5.0)
