"""Transport of `torch.distributed._transport`: `new_transport("tcpx", "cpu")`, or "cuda".

PyTorch finds it by the entry point of the package. docs/python-adapters.md has an example.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import Any, Literal

import torch
from torch.distributed._transport import Transport as _Base

from ._agent import Agent
from ._memory import Region, Remote
from ._peers import Peer
from ._tensors import Share, Tensors
from ._torch_work import TransferWork

# Transports whose memory peers may reach: the program need not keep them.
_exposed: set[Transport] = set()


class RemoteBuffer:
    """Memory that a peer has registered. Its bytes are a capability."""

    def __init__(self, descriptor: bytes) -> None:
        if type(descriptor) is not bytes:
            raise TypeError("a serialized descriptor is bytes")
        # Not decoded for a tensor without elements, which has none.
        self.remote: Remote | None = Remote(descriptor) if descriptor else None
        self._descriptor = descriptor

    @property
    def length(self) -> int:
        """Size in bytes."""
        return 0 if self.remote is None else self.remote.nbytes

    def serialize(self) -> bytes:
        """Returns the descriptor, for `deserialize` at a peer."""
        return self._descriptor

    @classmethod
    def deserialize(cls, data: bytes) -> RemoteBuffer:
        """Takes a descriptor in. Raises `ValueError` for bytes that are none."""
        return cls(data)


class MemoryView:
    """Bytes of registered memory, to be written from."""

    def __init__(self, memory: Memory, offset: int, length: int) -> None:
        self.memory = memory
        self._offset = offset
        self._length = length

    def size(self) -> int:
        """Returns the size in bytes."""
        return self._length

    def region(self) -> Region:
        """Returns the part of the exported buffer.

        Raises `RuntimeError` once the memory is unregistered.
        """
        buffer = self.memory.registration().buffer
        if buffer is None:
            raise ValueError("a tensor without elements has no bytes to move")
        return Region(buffer, self._offset, self._length)


class MutableMemoryView(MemoryView):
    """Bytes of registered memory, to be read into."""

    writable: Literal[True] = True


class Memory:
    """A registered tensor."""

    def __init__(
        self, transport: Transport, tensor: torch.Tensor, share: Share, *, reused: bool
    ) -> None:
        self.transport = transport
        self.share = share
        self._tensor = tensor
        self._reused = reused

    def to_view(self, offset: int | None = None, length: int | None = None) -> MemoryView:
        """Returns bytes to write from, all from `offset` on unless `length` says less."""
        return MemoryView(self, *self._range(offset, length))

    def to_mutable_view(
        self, offset: int | None = None, length: int | None = None
    ) -> MutableMemoryView:
        """Returns bytes to read into, all from `offset` on unless `length` says less."""
        return MutableMemoryView(self, *self._range(offset, length))

    def to_remote_buffer(self, *, timeout: float | None = None) -> RemoteBuffer:
        """Returns the descriptor for peers. Does not block."""
        return RemoteBuffer(self.transport._expose(self))

    def reused_registration(self) -> bool:
        """Returns whether the tensor was registered before."""
        return self._reused

    def registration(self) -> Share:
        """Returns what is exported. Raises `RuntimeError` once it is unregistered, or resized."""
        if self.share.uses == 0:
            raise RuntimeError("memory has been unregistered")
        key = self.share.key
        if (self._tensor.data_ptr(), self._tensor.nbytes) != (key.address, key.nbytes):
            raise RuntimeError("the registered tensor was resized, or its storage replaced")
        return self.share

    def _range(self, offset: int | None, length: int | None) -> tuple[int, int]:
        nbytes = self.registration().nbytes
        offset = 0 if offset is None else offset
        length = nbytes - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > nbytes:
            end = offset + length
            raise ValueError(f"bytes {offset} to {end} are not in the {nbytes} of memory")
        return offset, length


class Transport(_Base):
    """One-sided transport over tcpx: an agent of its own, and one peer.

    `device` restricts tensors to a device; without it those of the host and all GPUs can be
    registered. `timeout` in seconds bounds waits that say nothing else. All other options are those
    of `tcpx.Agent`. An endpoint connects before it reads or writes; its peer need not.
    """

    def __init__(
        self, device: torch.device | str | None = None, *, timeout: float = 30.0, **options: Any
    ) -> None:
        super().__init__(device)
        if self.device is not None and self.device.type not in ("cpu", "cuda"):
            raise ValueError(f"tcpx moves memory of the host and of CUDA, not of {self.device}")
        self._default_timeout = timeout
        self._tensors = Tensors(Agent(**options))
        self._peer: Peer | None = None
        # Guards what follows, and that memory stays registered while a transfer with it begins.
        # No thread waits while it holds it. Callbacks of what has ended may take it once more.
        self._lock = threading.RLock()
        self._pending: set[TransferWork] = set()
        self._is_closing = False

    @staticmethod
    def supported() -> bool:
        """Returns whether the transport can be used: wherever the package can be imported."""
        return True

    def bind(self, *, timeout: float | None = None) -> bytes:
        """Returns the agent's address. It holds a secret: send it over a trusted channel."""
        return self._open().agent.address

    def connect(self, peer_url: bytes, *, timeout: float | None = None) -> int:
        """Connects to the peer with this address. Raises `tcpx.PeerLost`, `tcpx.Timeout`."""
        agent = self._open().agent
        if self._peer is not None:
            raise RuntimeError("transport is already connected")
        peer = agent.add(peer_url)
        agent.connect(peer).wait(self._default_timeout if timeout is None else timeout)
        with self._lock:
            if self._peer is not None:
                raise RuntimeError("transport is already connected")
            self._peer = peer
        return 0

    def connected(self) -> bool:
        """Returns whether `connect` has succeeded, and the peer is still there."""
        return self._peer is not None and not self._is_closing and self._peer.state == "up"

    def register_memory(self, tensor: Any, *, timeout: float | None = None) -> Memory:
        """Registers a contiguous tensor with elements."""
        tensors = self._open()
        if not isinstance(tensor, torch.Tensor):
            raise TypeError("tensor must be a torch.Tensor")
        self._check_device(tensor.device)
        if tensor.numel() == 0:
            raise ValueError("a tensor without elements cannot be registered")
        share = tensors.share(tensor)
        return Memory(self, tensor, share, reused=share.uses > 1)

    def unregister_memory(self, memory: Any, *, timeout: float | None = None) -> None:
        """Takes the memory back from peers. All handles of the same memory end with it."""
        tensors = self._open()
        if not isinstance(memory, Memory) or memory.transport is not self:
            raise TypeError("memory was not registered by this transport")
        share = memory.share
        with self._lock:
            self._tidy()
            views = [work.view for work in self._pending] + list(self._cuda_stream_views())
            if share.uses and any(view.memory.share is share for view in views):
                raise RuntimeError("memory has pending transfers; wait before unregistering")
            # No transfer with it begins from here on.
            was_shared = tensors.forget(share)
        if was_shared and share.buffer is not None:
            share.buffer.close()

    def write(
        self,
        local_buffer: Any,
        remote_buffer: Any,
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Writes a local view to the start of a peer's memory: `Work` if `async_op`, else 0."""
        return self._start(local_buffer, remote_buffer, False, async_op, timeout)

    def read(
        self,
        local_buffer: Any,
        remote_buffer: Any,
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Reads the start of a peer's memory into a local view: `Work` if `async_op`, else 0."""
        return self._start(local_buffer, remote_buffer, True, async_op, timeout)

    def close(self, *, timeout: float | None = None) -> None:
        """Waits for what is under way, and closes the agent.

        Raises `TimeoutError` when something goes on: memory stays as it is, and `close` may be
        called again.
        """
        with self._lock:
            # No transfer begins from here on.
            self._is_closing = True
            under_way = list(self._pending)
        timeout = self._default_timeout if timeout is None else timeout
        deadline = time.monotonic() + (timeout or 0.0)
        for work in under_way:
            if not work.await_end(max(deadline - time.monotonic(), 0.0)):
                raise TimeoutError("transfers are under way; close again before memory is reused")
            self._discard(work)
        self._close_cuda_streams()
        self._tensors.agent.close()
        _exposed.discard(self)

    async def close_async(self, *, timeout: float | None = None) -> None:
        """Does the same as `close`, without holding up the event loop."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, functools.partial(self.close, timeout=timeout))

    def _expose(self, memory: Memory) -> bytes:
        """Returns the descriptor of memory, and lives until it is closed: peers may reach it."""
        with self._lock:
            self._open()
            descriptor = memory.registration().descriptor
            _exposed.add(self)
            return descriptor

    def _tidy(self) -> None:
        """Forgets what has ended. Called with the lock."""
        for work in tuple(self._pending):
            if work.is_completed():
                self._pending.discard(work)

    def _discard(self, work: TransferWork) -> None:
        with self._lock:
            self._pending.discard(work)

    def _open(self) -> Tensors:
        if self._is_closing:
            raise RuntimeError("transport is closed")
        return self._tensors

    def _check_transfer(self, local_buffer: Any, remote_buffer: Any, *, mutable: bool) -> None:
        self._open()
        kind = MutableMemoryView if mutable else MemoryView
        if not isinstance(local_buffer, kind) or local_buffer.memory.transport is not self:
            raise TypeError(f"the local buffer is no {kind.__name__} of this transport")
        if not isinstance(remote_buffer, RemoteBuffer):
            raise TypeError("the remote buffer is not one of a tcpx transport")
        if local_buffer.size() > remote_buffer.length:
            local_bytes, remote_bytes = local_buffer.size(), remote_buffer.length
            raise ValueError(
                f"{local_bytes} bytes do not fit the {remote_bytes} of the remote buffer"
            )

    def _start(
        self,
        local: MemoryView,
        remote: RemoteBuffer,
        is_read: bool,
        is_async: bool,
        timeout: float | None,
    ) -> Any:
        self._check_transfer(local, remote, mutable=is_read)
        if self._peer is None:
            raise RuntimeError("transport is not connected: connect it to the peer's bind() first")
        timeout = self._default_timeout if timeout is None else timeout
        agent = self._tensors.agent
        start = agent.read if is_read else agent.write
        with self._lock:
            self._open()
            transfer = None
            if local.size() > 0 and remote.remote is not None:
                transfer = start(local.region(), remote.remote[: local.size()], stream=-1)
            work = TransferWork(transfer, local, agent=agent, timeout=timeout)
            if len(self._pending) >= 64:
                self._tidy()
            self._pending.add(work)
        if is_async:
            return work
        work.wait()
        self._discard(work)
        return 0
