"""Operations that wait until their peer is up: sends and receives, and what waits for a GPU."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ._errors import Error, PeerLost

if TYPE_CHECKING:
    from . import _native
    from ._transfer import Transfer


class Arrivals:
    """Transfers by the name of the peer that they wait for."""

    def __init__(self, session: _native.Session) -> None:
        self._session = session
        # In the order of posting, in which they begin: one that waits for a GPU holds up the next.
        self._waiting: dict[str, list[Transfer]] = {}
        self._lock = threading.Lock()
        # Names of peers that this agent can connect to.
        self._reachable: set[str] = set()

    def add_peer(self, peer: str) -> None:
        """Begins to connect to a peer whose address is known."""
        self._reachable.add(peer)
        if self._session.peer_state(peer)[0] not in ("up", "connecting"):
            self._session.start_connect(peer)

    def add(self, transfer: Transfer) -> None:
        """Starts a transfer, at once or when its peer is up and its GPUs have come to it."""
        with self._lock:
            self._waiting.setdefault(transfer._peer, []).append(transfer)
        self._advance(transfer._peer)

    def advance(self) -> None:
        """Starts or ends what waits for peers that are up or cannot be reached."""
        for peer in list(self._waiting):
            self._advance(peer)

    def clear(self) -> None:
        """Forgets all that wait."""
        with self._lock:
            self._waiting.clear()

    def mark(self, peer: str) -> _native.Mark | None:
        """Returns what a GPU has to reach before the next transfer with a peer begins."""
        with self._lock:
            waiting = self._waiting.get(peer)
            return waiting[0]._mark() if waiting else None

    def wait_for_gpus(self) -> bool:
        """Returns whether a transfer waits for a GPU."""
        return any(self.mark(peer) is not None for peer in list(self._waiting))

    def _take(self, peer: str, *, has_failed: bool) -> Transfer | None:
        """Takes the next transfer out, if it waits no more."""
        with self._lock:
            waiting = self._waiting.get(peer)
            if not waiting or not (has_failed or waiting[0]._done or waiting[0]._mark() is None):
                return None
            return waiting.pop(0)

    def _advance(self, peer: str) -> None:
        with self._lock:
            waiting = list(self._waiting.get(peer, ()))
            if not waiting:
                self._waiting.pop(peer, None)
                return
        try:
            state, error = self._session.peer_state(peer)
            if state in ("unknown", "parted", "failed") and peer in self._reachable:
                # An attempt that failed before counts for those that saw it.
                is_new = not all(each._tried for each in waiting)
                if state != "failed" or is_new:
                    self._session.start_connect(peer)
                    state = "connecting"
        except Error as failure:
            state, error = "failed", failure
        for each in waiting:
            each._tried = True
        if state not in ("up", "failed"):
            return
        has_failed = state == "failed"
        while (transfer := self._take(peer, has_failed=has_failed)) is not None:
            if has_failed:
                transfer._finish(error or PeerLost(f"peer {peer} cannot be reached"))
            elif transfer._start is None:
                transfer._finish(None)
            else:
                transfer._begin()
