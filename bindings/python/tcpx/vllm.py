"""Weight transfer of vLLM: inference workers read new weights from the trainer's memory.

vLLM finds it by the package's entry point: `WeightTransferConfig(backend="tcpx")`. The trainer uses
`WeightTransferTrainerFactory.trainer_init(TrainerInitInfo(rank=0), ...)`. Any number of workers may
read at the same time. docs/python-adapters.md has an example.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._vllm_trainer import TrainerInitInfo

__all__ = ["CHUNK_BYTES", "NAME", "TrainerInitInfo", "register"]

NAME = "tcpx"
"""Name of the backend in `WeightTransferConfig`."""

CHUNK_BYTES = 1 << 30
"""Bytes of weights after which workers load what they have, unless the trainer says otherwise."""


def register() -> None:
    """Makes both engines known to vLLM in this process. Calling it again changes nothing."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    if NAME not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(NAME, "tcpx._vllm_worker", "WeightTransferEngine")
    try:
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
    except ImportError:
        # vLLM up to 0.28 has no such engine in the trainer.
        return
    if NAME not in WeightTransferTrainerFactory._registry:
        WeightTransferTrainerFactory.register_engine(
            NAME, "tcpx._vllm_trainer", "TrainerWeightTransferEngine"
        )


def __getattr__(name: str) -> Any:
    # vLLM is imported when the trainer's class is asked for: workers that register need less of it.
    if name == "TrainerInitInfo":
        from ._vllm_trainer import TrainerInitInfo

        return TrainerInitInfo
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def to_text(values: Iterable[bytes]) -> list[str]:
    """Returns bytes as text, which the routes of vLLM carry."""
    return [base64.b64encode(value).decode("ascii") for value in values]


def from_text(values: Iterable[str]) -> list[bytes]:
    """Returns the bytes of `to_text`. Raises `ValueError` for other text."""
    return [base64.b64decode(value, validate=True) for value in values]
