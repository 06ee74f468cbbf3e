"""`Work` of torch for transfers."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed._transport import Work

from ._errors import Error

if TYPE_CHECKING:
    from ._agent import Agent
    from ._transfer import Transfer

_FOREVER = timedelta(0)


class TransferWork(Work):
    """A transfer under way. One without bytes (`transfer` is None) has ended from the start.

    The end of a wait is not the transfer's: it goes on, and another wait may follow.
    """

    def __init__(
        self, transfer: Transfer | None, view: Any, *, agent: Agent, timeout: float | None
    ) -> None:
        super().__init__()
        # The memory stays registered while it is under way.
        self.view = view
        self._transfer = transfer
        self._agent = agent
        self._timeout = timeout
        self._lock = threading.Lock()
        self._future: torch.futures.Future[Any] | None = None

    def await_end(self, timeout: float | None) -> bool:
        """Waits until it has ended, in whatever way, for at most `timeout` seconds."""
        if self._transfer is not None:
            try:
                self._transfer.wait(timeout)
            except Error:
                return self._transfer.done()
        return True

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        """Waits for the end. Raises `TimeoutError` while it goes on, or the transfer's error."""
        seconds = timeout.total_seconds()
        if seconds < 0:
            raise ValueError("timeout must be nonnegative")
        if self._transfer is not None:
            self._transfer.wait(seconds or self._timeout)
        return True

    def is_completed(self) -> bool:
        """Returns whether it has ended, in whatever way."""
        return self._transfer is None or self._transfer.done()

    def is_success(self) -> bool:
        """Returns whether it has ended without error."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Returns the error with which it has ended, or None."""
        if self._transfer is None or not self._transfer.done():
            return None
        return self._transfer.exception()

    def get_future(self) -> torch.futures.Future[Any]:
        """Returns a future that is set when it has ended, to an empty list or the error.

        In an event loop the loop sets it; elsewhere a thread, which waits for the end.
        """
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = torch.futures.Future()
        if self._transfer is None or self._transfer.done():
            self._settle()
            return self._future
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            threading.Thread(target=self._wait_and_settle, name="tcpx-future", daemon=True).start()
        else:
            self._agent._loops.watch(loop)
            self._transfer._when_done(self._settle)
        return self._future

    def _wait_and_settle(self) -> None:
        self.await_end(None)
        self._settle()

    def _settle(self) -> None:
        future, error = self._future, self.exception()
        if future is None:
            return
        if error is None:
            future.set_result([])
        else:
            future.set_exception(error if isinstance(error, Exception) else RuntimeError(str(error)))

    def result(self) -> list[torch.Tensor]:
        """Waits for the end, and returns an empty list."""
        self.wait()
        return []

    def synchronize(self) -> None:
        """Does the same as `wait`."""
        self.wait()
