"""Streams of GPUs, named as in DLPack, and what they still have to do on memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._errors import Timeout

if TYPE_CHECKING:
    from . import _native

# Time that a call waits for a GPU, in seconds, and the longest in one step, in microseconds.
_GPU_TIME = 60
_BRIEFLY = 20_000


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
    waiting = [mark for mark in marks if mark is not None]
    if stream is None and asyncio._get_running_loop() is None:
        # No loop would begin the transfer later, and a program that names no stream counts on it.
        for mark in waiting:
            _await(mark)
        return []
    return waiting


def _await(mark: _native.Mark) -> None:
    deadline = time.monotonic() + _GPU_TIME
    while not mark.wait_briefly(_BRIEFLY):
        if time.monotonic() >= deadline:
            raise Timeout(f"the GPU has not done its default stream's work after {_GPU_TIME} s")
