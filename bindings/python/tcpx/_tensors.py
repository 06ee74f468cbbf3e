"""Tensors of torch at both ends, as the adapters for PyTorch, Ray and vLLM move them.

The owner of tensors shares them: their memory is exported, and descriptors go to other processes.
Those read the tensors into some of their own, of the same sizes in bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ._agent import Agent
from ._memory import Buffer
from ._transfer import Transfer

if TYPE_CHECKING:
    import torch


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of a tensor, flat and as uint8, in the same memory.

    So elements of every type can be moved, those that DLPack does not know too. Raises `ValueError`
    for a tensor that is not contiguous.
    """
    import torch

    if not tensor.is_contiguous():
        raise ValueError(
            f"a tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not contiguous"
        )
    return tensor.detach().reshape(-1).view(torch.uint8)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a contiguous tensor of the same values: the given one where it is."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def await_streams(tensors: Iterable[torch.Tensor]) -> None:
    """Waits for the work on tensors that was given to the current streams of their GPUs."""
    import torch

    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()


class _Key(NamedTuple):
    """Memory of a tensor."""

    address: int
    nbytes: int
    device: str


class Share:
    """Memory of a tensor that is exported, any number of times at once."""

    def __init__(self, key: _Key, memory: torch.Tensor, buffer: Buffer | None) -> None:
        self.key = key
        # Keeps the tensor, and its storage.
        self.memory = memory
        # None for a tensor without elements, which has no memory to move.
        self.buffer = buffer
        self.uses = 1

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.key.nbytes

    @property
    def descriptor(self) -> bytes:
        """Descriptor for peers; no bytes for a tensor without elements."""
        return b"" if self.buffer is None else self.buffer.descriptor


class Tensors:
    """An agent, with the tensors that it shares by their memory. Any thread may use it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._shares: dict[_Key, Share] = {}
        self._lock = threading.Lock()

    def share(self, tensor: torch.Tensor) -> Share:
        """Exports a contiguous tensor, or counts one more use of an export.

        Work on it that was given to a stream of a GPU must have ended: see `await_streams`. Raises
        `ValueError` for a tensor that is not contiguous.
        """
        memory = memory_of(tensor)
        key = _Key(memory.data_ptr(), memory.numel(), str(memory.device))
        with self._lock:
            share = self._shares.get(key)
            if share is None:
                buffer = self.agent.export(memory, stream=-1) if key.nbytes else None
                share = self._shares[key] = Share(key, memory, buffer)
            else:
                share.uses += 1
            return share

    def share_all(self, tensors: Iterable[torch.Tensor]) -> list[Share]:
        """Exports contiguous tensors: all, or none where one cannot be. See `share`."""
        shares: list[Share] = []
        try:
            for tensor in tensors:
                shares.append(self.share(tensor))
        except BaseException:
            for share in shares:
                self.unshare(share)
            raise
        return shares

    def unshare(self, share: Share) -> None:
        """Counts one use less, and takes the memory back from peers after the last."""
        with self._lock:
            share.uses -= 1
            if share.uses > 0 or self._shares.get(share.key) is not share:
                return
            del self._shares[share.key]
        if share.buffer is not None:
            share.buffer.close()

    def forget(self, share: Share) -> bool:
        """Ends all uses at once. Returns whether there were any: its buffer has to be closed then."""
        with self._lock:
            share.uses = 0
            if self._shares.get(share.key) is not share:
                return False
            del self._shares[share.key]
            return True

    def fetch(
        self, address: bytes, descriptors: Sequence[bytes], targets: Sequence[torch.Tensor]
    ) -> Transfer | None:
        """Begins to read shared tensors into contiguous `targets`, in one operation.

        `address` is that of the owner's agent. Returns None when there are no bytes to move. Raises
        `ValueError` when the lists do not fit each other.
        """
        if len(descriptors) != len(targets):
            raise ValueError(f"{len(descriptors)} tensors do not fit {len(targets)} targets")
        pairs = [(memory_of(to), of) for of, to in zip(descriptors, targets) if of]
        if not pairs:
            return None
        await_streams(targets)
        peer = self.agent.add(address)
        locals_, remotes = [to for to, _ in pairs], [of for _, of in pairs]
        return self.agent.read(locals_, remotes, peer=peer, stream=-1)
