"""Engine of a trainer for vLLM: it shares weights, and has the workers read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from vllm.distributed.weight_transfer import base

from ._agent import Agent
from ._tensors import Tensors, await_streams, plain
from .vllm import CHUNK_BYTES, NAME, to_text


@dataclass
class TrainerInitInfo(base.TrainerInitInfo):
    """How weights go out. Rank 0 shares them; other ranks only take part in gathering them."""

    backend: ClassVar[str] = NAME
    chunk_bytes: int = CHUNK_BYTES
    """Bytes after which workers load what they have. They need this much memory beside the model."""


class TrainerWeightTransferEngine(base.TrainerWeightTransferEngine[TrainerInitInfo]):
    """Made by `WeightTransferTrainerFactory.trainer_init`, with a source of full tensors."""

    init_info_cls = TrainerInitInfo

    def __init__(self, *, chunk_bytes: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._chunk_bytes = chunk_bytes
        self._tensors = Tensors(Agent()) if self.is_sender else None

    @classmethod
    def trainer_init(
        cls, init_info: TrainerInitInfo, *, client: Any, source: Any = None
    ) -> TrainerWeightTransferEngine:
        """Makes the engine, and has all workers connect. Called on every rank of the trainer."""
        if source is None or not source.implements_iter_full():
            raise TypeError("tcpx needs a WeightSource that implements iter_full()")
        if len(source.owned_names(init_info.rank)) != len(source.metadata):
            raise ValueError(f"rank {init_info.rank} does not own every parameter")
        engine = cls(
            chunk_bytes=init_info.chunk_bytes,
            client=client,
            source=source,
            is_sender=init_info.is_sender,
            rank=init_info.rank,
        )
        if engine._tensors is not None:
            (address,) = to_text([engine._tensors.agent.address])
            client.init_weight_transfer_engine({"address": address})
        return engine

    def send_weights(self) -> None:
        """Has all workers take over the weights. Called on every rank of the trainer."""
        assert self.source is not None
        if self._tensors is None:
            # Gathering a tensor takes all ranks.
            for _ in self.source.iter_full():
                pass
            return
        self.client.start_weight_update()
        for chunk in self._chunks(self.source):
            self._send(self._tensors, chunk)
        self.client.finish_weight_update()

    def _chunks(self, source: base.WeightSource) -> Iterator[list[tuple[str, torch.Tensor]]]:
        """Yields weights until their bytes are as many as a chunk has, one at least."""
        chunk: list[tuple[str, torch.Tensor]] = []
        nbytes = 0
        for name, tensor in source.iter_full():
            if chunk and nbytes + tensor.nbytes > self._chunk_bytes:
                yield chunk
                chunk, nbytes = [], 0
            chunk.append((name, plain(tensor)))
            nbytes += tensor.nbytes
        if chunk:
            yield chunk

    def _send(self, tensors: Tensors, chunk: list[tuple[str, torch.Tensor]]) -> None:
        """Shares a chunk while the workers read it."""
        await_streams(tensor for _, tensor in chunk)
        shares = tensors.share_all(tensor for _, tensor in chunk)
        try:
            self.client.update_weights(
                {
                    "names": [name for name, _ in chunk],
                    "dtype_names": [str(tensor.dtype).removeprefix("torch.") for _, tensor in chunk],
                    "shapes": [list(tensor.shape) for _, tensor in chunk],
                    "descriptors": to_text(share.descriptor for share in shares),
                }
            )
        finally:
            for share in shares:
                tensors.unshare(share)

    def shutdown(self) -> None:
        """Closes the agent."""
        if self._tensors is not None:
            self._tensors.agent.close()
