"""Operations under way, as programs see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from ._errors import Cancelled, Error, Timeout
from ._loops import call_in

if TYPE_CHECKING:
    from . import _native
    from ._agent import Agent

# Longest time for which an `await` waits in place before it goes back to its loop, in microseconds,
# when nothing else of the agent is under way. A read of some KiB takes about as long.
_SPIN = 50
# Most bytes of an operation that an `await` waits for in place: a larger one takes longer.
SHORT = 64 << 10


class Transfer:
    """An operation of an agent: a read, a write, a send, a receive, or a connect.

    `await transfer` and `transfer.wait(timeout)` return when it has ended, and raise its error if
    it has one. Any number of tasks and threads may wait for it. It goes on when it is not waited
    for, and keeps the memory that it uses. Cancelling a task that awaits it cancels it.
    """

    __slots__ = (
        "__weakref__",
        "_agent",
        "_callbacks",
        "_context",
        "_done",
        "_error",
        "_is_short",
        "_keeps",
        "_marks",
        "_operation",
        "_peer",
        "_start",
        "_tried",
    )

    def __init__(
        self, agent: Agent, context: int, peer: str, start: Callable[[int], _native.Operation] | None
    ) -> None:
        self._agent = agent
        self._context = context
        self._peer = peer
        # Posts the operation, once the peer is up.
        self._start = start
        self._operation: _native.Operation | None = None
        self._done = False
        # Whether its peer was asked to come.
        self._tried = False
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []
        # Memory that was made known for this operation alone.
        self._keeps: list[_native.Memory] = []
        # Whether it has so few bytes that an `await` waits for it in place.
        self._is_short = False
        # What GPUs have to do before it starts.
        self._marks: list[_native.Mark] = []

    def done(self) -> bool:
        """Returns whether it has ended, in whatever way. Does not block."""
        if not self._done:
            self._look()
        return self._done

    def exception(self) -> BaseException | None:
        """Returns the error with which it has ended, or None. Raises `Timeout` while it goes on."""
        if not self.done():
            raise Timeout("the transfer has not ended")
        return self._error

    def cancel(self) -> None:
        """Gives it up. It ends with `Cancelled`, or as without the call when it is too late.

        The memory is in use until it has ended: wait for it to know.
        """
        if self._done:
            return
        if self._operation is not None:
            self._operation.cancel()
        else:
            self._finish(Cancelled("cancelled before it began"))

    def wait(self, timeout: float | None = None) -> None:
        """Waits until it has ended, for at most `timeout` seconds, or without limit.

        Other threads run meanwhile, and Ctrl-C ends the wait. Raises the error with which it has
        ended. `Timeout` may also say only that it goes on: `done()` tells.
        """
        if not self._done and self._operation is None:
            timeout = self._agent._under_way.wait_for_start(self, timeout)
        operation = self._operation
        if not self._done and operation is not None:
            try:
                operation.wait(timeout)
            except Exception:
                # The wait's own end is not the operation's.
                self._look()
                if not self._done:
                    raise
            else:
                self._finish(None)
        if self._error is not None:
            raise self._error

    def __await__(self) -> Generator[object, None, None]:
        if not self._done:
            operation = self._operation
            if operation is not None and self._is_short and self._agent._under_way.is_alone():
                if operation.wait_briefly(_SPIN):
                    self._look()
            while not self._done:
                yield from self._woken()
        if self._error is not None:
            raise self._error

    def _woken(self) -> Generator[object, None, None]:
        """Waits in the running loop until the end is known."""
        loop = asyncio.get_running_loop()
        self._agent._loops.watch(loop)
        self._agent._under_way.look_later(loop)
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self._when_done(lambda: call_in(loop, wake))
        if self._done:
            # Another thread has seen the end meanwhile.
            return
        self._agent._session.arm()
        try:
            yield from future
        except BaseException:
            # The task is cancelled.
            self.cancel()
            raise

    def _mark(self) -> _native.Mark | None:
        """Returns a mark that is not reached yet. A GPU that fails holds up nothing."""
        try:
            while self._marks and self._marks[0].is_reached():
                self._marks = self._marks[1:]
        except Error:
            return None
        return self._marks[0] if self._marks else None

    def _begin(self) -> None:
        """Posts the operation, or ends with the error."""
        start = self._start
        try:
            for mark in self._marks:
                # Raises the GPU's error.
                mark.is_reached()
            if start is not None and not self._done:
                self._operation = start(self._context)
        except Error as failure:
            self._finish(failure)

    def _when_done(self, callback: Callable[[], None]) -> None:
        """Has the end call back, once, in the thread that sees it: at once if it was seen."""
        self._callbacks.append(callback)
        if self._done:
            self._call_back()

    def _call_back(self) -> None:
        """Calls all back that wait. Each is taken out by one thread."""
        while True:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            callback()

    def _look(self) -> None:
        """Takes over the end of the operation, if it has ended."""
        operation = self._operation
        if operation is None:
            return
        try:
            has_ended = operation.has_ended()
        except Exception as error:
            self._finish(error)
        else:
            if has_ended:
                self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        """Notes the end, and wakes those who wait."""
        if self._done:
            return
        self._error = error
        self._done = True
        self._start = None
        self._marks = []
        self._agent._under_way.forget(self)
        if self._operation is not None:
            self._operation.release()
        self._keeps.clear()
        self._call_back()

    def __repr__(self) -> str:
        if not self._done:
            state = "under way" if self._operation is not None else "waits for its peer or a GPU"
        else:
            state = "done" if self._error is None else f"failed: {self._error}"
        return f"<tcpx.Transfer with {self._peer}: {state}>"
