"""What an agent has under way, and what has come in: operations, and notifications of peers."""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._arrivals import Arrivals
from ._errors import Closed, Timeout
from ._peers import Notification

if TYPE_CHECKING:
    from . import _native
    from ._loops import Loops
    from ._transfer import Transfer

# Number of events that are taken out at a time.
_MOST = 256
# Operations under way from which a new one looks which have ended: programs need not wait for all.
_MANY = 64
# Time between two looks at a GPU that a transfer waits for: in a loop in seconds, and the longest
# in a wait in microseconds, whose own looks are closer.
_LOOK_EVERY = 0.0002
_BRIEFLY = 1000


class UnderWay:
    """Transfers that have not ended, by context, and those who wait for something."""

    def __init__(self, session: _native.Session, loops: Loops) -> None:
        self._session = session
        self._loops = loops
        # Everything that has not ended, so that it goes on when the program drops it.
        self._transfers: dict[int, Transfer] = {}
        self._contexts = itertools.count(1)
        # How many are under way when it pays to look which have ended.
        self._tidy_at = _MANY
        self.arrivals = Arrivals(session)
        # Loops that look after GPUs.
        self._looking: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self._notes: deque[Notification] = deque()
        self.note_waiters: list[Callable[[], None]] = []

    def context(self) -> int:
        """Returns the context of a new transfer."""
        return next(self._contexts)

    def keep(self, transfer: Transfer) -> None:
        """Keeps a transfer until it has ended."""
        self._transfers[transfer._context] = transfer

    def forget(self, transfer: Transfer) -> None:
        """Keeps a transfer no longer."""
        self._transfers.pop(transfer._context, None)

    def begin(self, transfer: Transfer) -> None:
        """Starts a transfer, at once or when its peer is up."""
        self.keep(transfer)
        self.arrivals.add(transfer)
        if transfer._operation is None and not transfer._done:
            loop = asyncio._get_running_loop()
            if loop is not None:
                self._loops.watch(loop)
                self.look_later(loop)
        self.tidy()

    def look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has a loop look after GPUs while a transfer waits for one: they do not wake it."""
        if loop not in self._looking and self.arrivals.wait_for_gpus():
            self._looking.add(loop)
            loop.call_later(_LOOK_EVERY, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking.discard(loop)
        self.drain()
        self.look_later(loop)

    def wait_for_start(self, transfer: Transfer, timeout: float | None) -> float | None:
        """Waits until a transfer's peer is up. Returns what is left of the time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not transfer._done and transfer._operation is None:
            self.drain()
            if transfer._done or transfer._operation is not None:
                break
            if deadline is not None and time.monotonic() >= deadline:
                state = self._session.peer_state(transfer._peer)[0]
                raise Timeout(f"peer {transfer._peer} is {state} after {timeout} s")
            mark = self.arrivals.mark(transfer._peer)
            if mark is None:
                self._session.wait_event()
            else:
                mark.wait_briefly(_BRIEFLY)
        return None if deadline is None else max(deadline - time.monotonic(), 0.0)

    def __len__(self) -> int:
        return len(self._transfers)

    def is_alone(self) -> bool:
        """Returns whether one transfer is under way, and no other."""
        return len(self._transfers) == 1

    def tidy(self) -> None:
        """Takes over what has ended without being waited for."""
        if len(self._transfers) >= self._tidy_at:
            self.drain()
            # As many again may come before the next look, so a look costs little for each.
            self._tidy_at = max(_MANY, 2 * len(self._transfers))

    def drain(self) -> None:
        """Takes events out, and wakes those who wait for them."""
        more = True
        while more:
            ended, more = self._session.poll_events(_MOST)
            for context, error in ended:
                transfer = self._transfers.get(context)
                if transfer is not None:
                    transfer._finish(error)
        self.arrivals.advance()
        self._wake()

    def take_note(self) -> Notification | None:
        """Takes a notification that is there."""
        if not self._notes:
            notes = self._session.poll_notifications(_MOST)
            self._notes.extend(Notification(*note) for note in notes)
        return self._notes.popleft() if self._notes else None

    def wait_note(self, timeout: float | None) -> Notification:
        """Waits for a notification, for at most `timeout` seconds."""
        if self._notes:
            return self._notes.popleft()
        return Notification(*self._session.wait_notification(timeout))

    def end(self) -> None:
        """Ends all that waits, after the session."""
        for transfer in list(self._transfers.values()):
            transfer._look()
            transfer._finish(Closed("the agent was closed"))
        self.arrivals.clear()
        self._wake()

    def _wake(self) -> None:
        if self.note_waiters:
            waiters, self.note_waiters = self.note_waiters, []
            for wake in waiters:
                wake()
