"""Posting of operations: their memory, their peer, and what GPUs have to do before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ._errors import Closed, ConfigError
from ._memory import Buffer, Region, Remote, RemoteLike, range_of, remote_of
from ._streams import marks_of
from ._transfer import SHORT, Transfer

if TYPE_CHECKING:
    from . import _native
    from ._agent import Agent
    from ._peers import PeerLike


def post_access(
    agent: Agent,
    is_read: bool,
    local: object,
    remote: RemoteLike | Sequence[RemoteLike],
    peer: PeerLike | None,
    notify: bytes | None,
    timeout: float | None,
    stream: int | None,
) -> Transfer:
    """Posts a read or a write, at once or after what GPUs have to do."""
    if isinstance(remote, (bytes, Remote)):
        remotes = [remote_of(remote)]
    else:
        remotes = [remote_of(each) for each in remote]
    keeps: list[_native.Memory] = []
    is_list = isinstance(local, (list, tuple))
    locals_ = cast("Sequence[object]", local) if is_list else (local,)
    ranges = [_range(agent, each, keeps) for each in locals_]
    name = _owner(agent, remotes) if peer is None else str(peer)
    remote_ranges = [range_of(each) for each in remotes]

    def start(context: int) -> _native.Operation:
        return agent._session.post_access(
            is_read, name, ranges, remote_ranges, notify, timeout, context
        )

    transfer = Transfer(agent, agent._under_way.context(), name, start)
    transfer._keeps = keeps
    transfer._is_short = sum(nbytes for _, _, nbytes in ranges) <= SHORT
    transfer._marks = marks_of([memory for memory, _, _ in ranges], stream)
    if transfer._marks:
        agent._under_way.begin(transfer)
        return transfer
    agent._under_way.keep(transfer)
    try:
        transfer._operation = start(transfer._context)
    except BaseException:
        agent._under_way.forget(transfer)
        raise
    agent._under_way.tidy()
    return transfer


def post_tagged(
    agent: Agent,
    is_send: bool,
    peer: PeerLike,
    object: object,
    tag: int,
    timeout: float | None,
    stream: int | None,
) -> Transfer:
    """Posts a send or a receive, when the peer is up and after what a GPU has to do."""
    keeps: list[_native.Memory] = []
    memory, offset, nbytes = _range(agent, object, keeps)
    name = str(peer)

    def start(context: int) -> _native.Operation:
        return agent._session.post_tagged(
            is_send, name, memory, offset, nbytes, tag, timeout, context
        )

    # Refused here rather than when the peer is up.
    memory.check_tagged()
    if not is_send:
        memory.check_writable()
    transfer = Transfer(agent, agent._under_way.context(), name, start)
    transfer._keeps = keeps
    transfer._is_short = nbytes <= SHORT
    transfer._marks = marks_of([memory], stream)
    agent._under_way.begin(transfer)
    return transfer


def _range(agent: Agent, local: object, keeps: list[_native.Memory]) -> tuple[_native.Memory, int, int]:
    """Returns memory, offset and size. Memory that was made known for this is kept in `keeps`."""
    if isinstance(local, Buffer):
        local = Region(local, 0, local.nbytes)
    if isinstance(local, Region):
        memory = local.buffer._memory
        if memory.is_closed:
            raise Closed("the buffer was closed")
        return memory, local.offset, local.nbytes
    memory = agent._session.register(local, None)
    keeps.append(memory)
    return memory, 0, memory.nbytes


def _owner(agent: Agent, remotes: list[Remote]) -> str:
    """Returns the name of the peer that has all of this memory."""
    names = {agent._owners.get(remote.owner) for remote in remotes}
    if len(names) == 1:
        (name,) = names
        if name is not None:
            return name
    raise ConfigError(
        "the descriptor is of an agent that was not added, or descriptors are of several",
        cure="add the agent that exported the memory, or name it with `peer`",
    )
