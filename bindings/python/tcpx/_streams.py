"""Streams of GPUs, named as in DLPack, and what they still have to do on memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import _native


def check_stream(stream: int | None) -> int | None:
    """Returns the stream. Raises `ValueError` for a number that names none: DLPack has no 0."""
    if stream is not None and (stream < -1 or stream == 0):
        raise ValueError(
            f"stream = {stream} names no stream: pass its handle, 1 for the legacy default stream, "
            "2 for the thread's default stream, or -1 when there is nothing to wait for"
        )
    return stream


def marks_of(memory: Iterable[_native.Memory], stream: int | None) -> list[_native.Mark]:
    """Makes a mark in the stream for each GPU that has some of the memory and has work to do.

    The handle of a stream names one of one GPU: the driver refuses it for memory of another.
    """
    check_stream(stream)
    devices = {each.device: each for each in memory}
    marks = [each.mark(stream) for each in devices.values()]
    return [mark for mark in marks if mark is not None]
