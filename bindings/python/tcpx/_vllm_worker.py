"""Engine of an inference worker of vLLM: it reads weights from the trainer, and loads them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from vllm.distributed.weight_transfer import base

from ._agent import Agent
from ._tensors import Tensors
from .vllm import from_text

# Seconds for which a worker waits for the trainer, or for one chunk.
_PATIENCE = 600.0


@dataclass
class InitInfo(base.WeightTransferInitInfo):
    """What the trainer says first."""

    address: str
    """Address of the trainer's agent, in base64. It holds a secret."""


@dataclass
class UpdateInfo(base.WeightTransferUpdateInfo):
    """One chunk of weights: lists with a member for each."""

    names: list[str]
    dtype_names: list[str]
    """Names of types of elements in torch, such as "bfloat16"."""
    shapes: list[list[int]]
    descriptors: list[str]
    """Descriptors of the trainer's memory, in base64. They are capabilities."""

    def __post_init__(self) -> None:
        sizes = {len(it) for it in (self.names, self.dtype_names, self.shapes, self.descriptors)}
        if len(sizes) > 1:
            raise ValueError(f"names, types, shapes and descriptors differ in number: {sorted(sizes)}")


class WeightTransferEngine(base.WeightTransferEngine[InitInfo, UpdateInfo]):
    """Made by vLLM for `WeightTransferConfig(backend="tcpx")`, with its worker's model."""

    init_info_cls = InitInfo
    update_info_cls = UpdateInfo

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tensors: Tensors | None = None
        self._address = b""

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        """Connects to the trainer. Raises `tcpx.PeerLost`, `tcpx.Timeout`."""
        (self._address,) = from_text([init_info.address])
        if self._tensors is None:
            self._tensors = Tensors(Agent())
        agent = self._tensors.agent
        agent.connect(agent.add(self._address)).wait(_PATIENCE)

    def start_weight_update(self) -> None:
        """Prepares the model for weights in the format of checkpoints."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def finish_weight_update(self) -> None:
        """Puts the loaded weights to use."""
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)

    def receive_weights(self, update_info: UpdateInfo) -> None:
        """Reads one chunk, and loads it. Raises `tcpx.Error`."""
        if self._tensors is None:
            raise RuntimeError("weights came before init_transfer_engine")
        weights = [
            torch.empty(shape, dtype=getattr(torch, kind), device=self.device)
            for shape, kind in zip(update_info.shapes, update_info.dtype_names)
        ]
        transfer = self._tensors.fetch(self._address, from_text(update_info.descriptors), weights)
        if transfer is not None:
            transfer.wait(_PATIENCE)
        with _partial_loads():
            # Models of vLLM have it, modules of torch do not.
            model: Any = self.model
            model.load_weights(list(zip(update_info.names, weights)))

    def shutdown(self) -> None:
        """Closes the agent."""
        if self._tensors is not None:
            self._tensors.agent.close()
            self._tensors = None


def _partial_loads() -> contextlib.AbstractContextManager[Any]:
    """Returns the context in which a model takes some of its weights, where vLLM has one."""
    try:
        from vllm.model_executor.model_loader import mtp_validation
    except ImportError:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[Any] = mtp_validation.disable_mtp_completeness_check()
    return context
