"""Peers of an agent, and the notifications that they send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Union

from ._errors import Closed
from ._loops import call_in

if TYPE_CHECKING:
    from ._agent import Agent
    from ._transfer import Transfer


class Notification(NamedTuple):
    """Bytes that a peer has sent for this program to read."""

    peer: str
    """Name of the sender."""
    data: bytes
    """0 to 65,536 bytes."""


class Peer:
    """Another agent, as this one knows it. Calls take the peer or its name."""

    __slots__ = ("_agent", "name")

    def __init__(self, agent: Agent, name: str) -> None:
        self._agent: Agent = agent
        self.name: str = name

    @property
    def state(self) -> str:
        """Returns "connecting", "up", "leaving", "parted", "failed" or "unknown"."""
        return self._agent._session.peer_state(self.name)[0]

    def connect(self) -> Transfer:
        """Connects to the peer: done when it is up. See `Agent.connect`."""
        return self._agent.connect(self)

    def disconnect(self) -> None:
        """Says goodbye to the peer. See `Agent.disconnect`."""
        self._agent.disconnect(self)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<tcpx.Peer {self.name}>"


PeerLike = Union[str, Peer]


class Notifications:
    """Iterator over the notifications of an agent. See `Agent.notifications`."""

    def __init__(self, agent: Agent) -> None:
        self._agent: Agent = agent

    def __aiter__(self) -> Notifications:
        return self

    async def __anext__(self) -> Notification:
        agent = self._agent
        while True:
            note = None if agent._closed else agent._under_way.take_note()
            if note is not None:
                return note
            if agent._closed:
                raise StopAsyncIteration
            loop = asyncio.get_running_loop()
            agent._loops.watch(loop)
            future: asyncio.Future[None] = loop.create_future()

            def wake(loop: asyncio.AbstractEventLoop = loop, it: asyncio.Future[None] = future) -> None:
                call_in(loop, lambda: None if it.done() else it.set_result(None))

            agent._under_way.note_waiters.append(wake)
            # One may have come while this one began to wait, and another loop have been woken.
            note = agent._under_way.take_note()
            if note is not None:
                if wake in agent._under_way.note_waiters:
                    agent._under_way.note_waiters.remove(wake)
                return note
            try:
                await future
            finally:
                if wake in agent._under_way.note_waiters:
                    agent._under_way.note_waiters.remove(wake)

    def __iter__(self) -> Notifications:
        return self

    def __next__(self) -> Notification:
        if self._agent._closed:
            raise StopIteration
        try:
            return self._agent.wait_notification()
        except Closed:
            raise StopIteration from None
