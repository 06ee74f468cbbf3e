"""Event loops that an agent wakes: each waits for the session's descriptor, so no thread is needed."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._agent import Agent


class Loops:
    """The loops in which something of an agent is awaited."""

    def __init__(self, agent: Agent) -> None:
        # The loops hold this, and must not keep the agent alive.
        self._agent = weakref.ref(agent)
        self._descriptors: dict[asyncio.AbstractEventLoop, int] = {}
        # The one that was last seen: most programs have no other.
        self._last: asyncio.AbstractEventLoop | None = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has a loop take events out when there are some. Called in the loop's thread."""
        agent = self._agent()
        if loop is self._last or agent is None:
            return
        if loop not in self._descriptors:
            for old in [old for old in self._descriptors if old.is_closed()]:
                os.close(self._descriptors.pop(old))
            # A descriptor of the loop's own: it may outlive the session's.
            descriptor = os.dup(agent._session.event_fd())
            self._descriptors[loop] = descriptor
            loop.add_reader(descriptor, self._drain, loop, descriptor)
        self._last = loop

    def _drain(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        agent = self._agent()
        if agent is None or agent.is_closed:
            loop.remove_reader(descriptor)
        else:
            agent._under_way.drain()

    def close(self) -> None:
        """Has all loops forget the agent."""
        self._last = None
        while self._descriptors:
            loop, descriptor = self._descriptors.popitem()
            if loop.is_closed():
                os.close(descriptor)
            else:
                call_in(loop, _Unwatch(loop, descriptor))


class _Unwatch:
    """Call that has a loop forget a descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        self._loop = loop
        self._descriptor = descriptor

    def __call__(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)


def call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Calls back in the thread of a loop, at once if this is it."""
    if asyncio._get_running_loop() is loop:
        callback()
        return
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        # The loop is closed, and with it all that waited in it.
        pass
