"""Memory at both ends: a buffer of this process, and memory of a peer."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Union

from . import _native
from ._errors import Timeout

if TYPE_CHECKING:
    from ._agent import Agent

Access = Literal["read", "write", "read-write"]

# Time that a descriptor waits for a GPU, in seconds, and the longest in one call, in microseconds:
# signals are handled between the calls.
_GPU_TIME = 60
_BRIEFLY = 20_000


class Region:
    """Part of a `Buffer`: bytes `offset` to `offset + nbytes` of it. Made by slicing a buffer."""

    __slots__ = ("buffer", "nbytes", "offset")

    def __init__(self, buffer: Buffer, offset: int, nbytes: int) -> None:
        self.buffer: Buffer = buffer
        self.offset: int = offset
        self.nbytes: int = nbytes


class Buffer:
    """Memory of an object that this agent moves, and that peers may reach by its descriptor.

    Made by `Agent.export`. The object is kept alive until the buffer is closed, and until everything
    under way with it has ended. A buffer whose descriptor was never asked for is closed when it is
    collected; any other one lives as long as its agent. `buffer[16:32]` is a part of it, in bytes.
    """

    def __init__(
        self,
        agent: Agent,
        memory: _native.Memory,
        access: Access,
        mark: _native.Mark | None = None,
    ) -> None:
        self._agent: Agent = agent
        self._memory: _native.Memory = memory
        self._access: Access = access
        self._descriptor: bytes | None = None
        # What a GPU has to do before peers may reach the memory.
        self._mark = mark

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._memory.nbytes

    @property
    def readonly(self) -> bool:
        """Whether the memory may only be sent from and read."""
        return self._memory.readonly

    @property
    def device(self) -> str:
        """Device that has the memory: "host", or "gpu0" and so on, by CUDA ordinal."""
        return self._memory.device

    @property
    def descriptor(self) -> bytes:
        """Descriptor of the memory: 86 bytes, to be sent to peers. Made when first asked for.

        It is a capability: an agent that has it may do with the memory what `access` of
        `Agent.export` says, until the buffer is closed. Raises `BadMemory` for memory that may only
        be read and was exported for writing; `Closed`. Waits for what a GPU still has to do on the
        memory, at most a minute: see `stream` of `Agent.export`. Raises `Timeout` then.
        """
        if self._descriptor is None:
            self._await_gpu()
            can_read, can_write = self._access != "write", self._access != "read"
            self._descriptor = self._memory.export(can_read, can_write)
            # Peers may use the memory from now on, whatever becomes of this object.
            self._agent._exports.add(self)
        return self._descriptor

    def _await_gpu(self) -> None:
        deadline = time.monotonic() + _GPU_TIME
        while self._mark is not None:
            if self._mark.wait_briefly(_BRIEFLY):
                self._mark = None
            elif time.monotonic() >= deadline:
                raise Timeout(f"{self.device} has not done its stream's work after {_GPU_TIME} s")

    def close(self) -> None:
        """Takes the memory back, and returns when nothing touches it any more.

        Operations of this agent on it are given up, and peers' are refused. Blocks for at most
        `close_timeout_ms` and the time of a GPU. Raises `BadMemory` when a GPU or a plugin does not
        let go: the object then stays alive. Closing a closed buffer does nothing.
        """
        self._memory.close()
        self._agent._exports.discard(self)

    def __getitem__(self, part: slice) -> Region:
        """Returns the part `[start:stop]`, in bytes."""
        start, stop, step = part.indices(self.nbytes)
        if step != 1:
            raise ValueError("a part of a buffer has no step")
        return Region(self, start, max(stop - start, 0))

    def __len__(self) -> int:
        return self.nbytes

    def __enter__(self) -> Buffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._memory.is_closed else f"{self.nbytes} bytes on {self.device}"
        return f"<tcpx.Buffer {state}>"


class Remote:
    """Memory of a peer, or a part of it: bytes `offset` to `offset + nbytes` of what was exported.

    `Remote(descriptor)` is all of it, and `remote[16:32]` a part, in bytes. It can be pickled.
    Raises `BadMemory` for bytes that are no descriptor.
    """

    __slots__ = ("_key", "descriptor", "nbytes", "offset")

    def __init__(self, descriptor: bytes, offset: int = 0, nbytes: int | None = None) -> None:
        self.descriptor: bytes = descriptor
        self._key: _native.Key = _native.Key(descriptor)
        self.offset: int = offset
        self.nbytes: int = self._key.nbytes - offset if nbytes is None else nbytes

    @property
    def access(self) -> str:
        """What the descriptor allows: "read", "write" or "read-write"."""
        return self._key.access

    @property
    def owner(self) -> bytes:
        """Bytes that all descriptors of one agent have in common."""
        return self._key.owner

    def __getitem__(self, part: slice) -> Remote:
        """Returns the part `[start:stop]` of this, in bytes."""
        start, stop, step = part.indices(self.nbytes)
        if step != 1:
            raise ValueError("a part of remote memory has no step")
        return Remote(self.descriptor, self.offset + start, max(stop - start, 0))

    def __len__(self) -> int:
        return self.nbytes

    def __reduce__(self) -> tuple[type[Remote], tuple[bytes, int, int]]:
        return Remote, (self.descriptor, self.offset, self.nbytes)

    def __repr__(self) -> str:
        return f"<tcpx.Remote {self.nbytes} bytes at {self.offset}, {self.access}>"


RemoteLike = Union[bytes, Remote]


def remote_of(remote: RemoteLike) -> Remote:
    """Returns remote memory, given as such or as a descriptor."""
    return remote if isinstance(remote, Remote) else Remote(remote)


def range_of(remote: Remote) -> tuple[_native.Key, int, int]:
    """Returns key, offset and size, as the native module takes them."""
    return remote._key, remote.offset, remote.nbytes
