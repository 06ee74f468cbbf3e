"""Operations that wait until their peer is up. Sends and receives do; reads and writes need not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._errors import Error, PeerLost

if TYPE_CHECKING:
    from . import _native
    from ._transfer import Transfer


class Arrivals:
    """Transfers by the name of the peer that they wait for."""

    def __init__(self, session: _native.Session) -> None:
        self._session = session
        self._waiting: dict[str, list[Transfer]] = {}
        # Names of peers that this agent can connect to.
        self._reachable: set[str] = set()

    def add_peer(self, peer: str) -> None:
        """Begins to connect to a peer whose address is known."""
        self._reachable.add(peer)
        if self._session.peer_state(peer)[0] not in ("up", "connecting"):
            self._session.start_connect(peer)

    def add(self, transfer: Transfer) -> None:
        """Starts a transfer, at once or when its peer is up."""
        self._waiting.setdefault(transfer._peer, []).append(transfer)
        self._advance(transfer._peer)

    def advance(self) -> None:
        """Starts or ends what waits for peers that are up or cannot be reached."""
        for peer in list(self._waiting):
            self._advance(peer)

    def clear(self) -> None:
        """Forgets all that wait."""
        self._waiting.clear()

    def _advance(self, peer: str) -> None:
        try:
            state, error = self._session.peer_state(peer)
            if state in ("unknown", "parted", "failed") and peer in self._reachable:
                # An attempt that failed before counts for those that saw it.
                is_new = not all(each._tried for each in self._waiting[peer])
                if state != "failed" or is_new:
                    self._session.start_connect(peer)
                    state = "connecting"
        except Error as failure:
            state, error = "failed", failure
        for each in self._waiting[peer]:
            each._tried = True
        if state not in ("up", "failed"):
            return
        for transfer in self._waiting.pop(peer):
            if transfer._done:
                continue
            if state == "failed":
                transfer._finish(error or PeerLost(f"peer {peer} cannot be reached"))
            elif transfer._start is None:
                transfer._finish(None)
            else:
                try:
                    transfer._operation = transfer._start(transfer._context)
                except Error as failure:
                    transfer._finish(failure)
