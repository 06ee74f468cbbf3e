"""A program as type checkers see it: mypy --strict and pyright run over it, and nothing else does."""

from __future__ import annotations

import tcpx
from tcpx import stats


def carries(agent: tcpx.Agent, earlier: stats.AgentStats) -> dict[str, float]:
    now = agent.stats()
    for report in now.peer("server"):
        transport: stats.PeerTransport | None = report.transport
        if transport is not None and not transport.encrypted:
            speeds: list[int | None] = [nic.speed_mbps for nic in transport.remote.nics]
            assert speeds
    return {rate.peer: rate.sent_gb_per_s for rate in now.rates(earlier)}


def session(address: bytes, descriptor: bytes) -> int:
    with tcpx.Agent("client", channels=4, nics=["eth0"], encryption="off") as agent:
        peer: tcpx.Peer = agent.add(address)
        with agent.export(bytearray(64), access="read") as buffer:
            part: tcpx.Region = buffer[0:32]
            remote = tcpx.Remote(descriptor)[0:32]
            transfer: tcpx.Transfer = agent.read(part, remote, timeout=1.5)
            transfer.wait(timeout=10)
            error: BaseException | None = transfer.exception()
            agent.notify(peer, b"done" if error is None else b"failed")
            return buffer.nbytes


async def main(agent: tcpx.Agent, descriptor: bytes, peer: tcpx.Peer) -> list[bytes]:
    await agent.write(b"bytes", descriptor, notify=b"block 7")
    await agent.send(peer, bytearray(8), tag=1)
    await agent.recv("server", bytearray(8), tag=1)
    seen: list[bytes] = []
    async for note in agent.notifications():
        sender: str = note.peer
        seen.append(note.data + sender.encode())
    try:
        await agent.connect(peer)
    except tcpx.PeerLost as lost:
        seen.append((lost.diagnosis or "").encode() + (lost.cure or "").encode())
    return seen
