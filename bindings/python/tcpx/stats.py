"""What `Agent.stats` returns: what carries the bytes of each peer, and what was counted.

The classes have the members of the C library's JSON and of the Rust crate's reports, under the
same names. A count begins at 0 with the agent, one of a peer with the peer. Members may be added.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass

from ._counters import (
    ChannelReport,
    ChannelStats,
    EagerStats,
    OneSidedStats,
    StageTimes,
    StagingMemory,
    StagingTimes,
    TcpStats,
)
from ._reading import read

__all__ = [
    "AgentStats",
    "AlarmReport",
    "ChannelReport",
    "ChannelStats",
    "EagerStats",
    "NicLink",
    "OneSidedStats",
    "PeerRate",
    "PeerReport",
    "PeerTransport",
    "SessionReport",
    "StageTimes",
    "StagingMemory",
    "StagingTimes",
    "TcpStats",
    "Totals",
    "TransportEnd",
]

# What stands behind the name of a peer in reports on its GPUs.
_DEVICE = re.compile("/gpu[0-9]+$")


@dataclass(frozen=True)
class NicLink:
    """A NIC that carries bytes."""

    name: str
    """Name of the interface at its own host."""
    speed_mbps: int | None
    """Speed of its link in Mbit/s. None: the kernel does not know it."""


@dataclass(frozen=True)
class TransportEnd:
    """One end of the way to a peer."""

    address: str
    """Address of this end of the control link; with its port at the peer. Empty: not known."""
    nics: tuple[NicLink, ...]
    """NICs of the channels, made or not: at most eight. Empty: not known."""


@dataclass(frozen=True)
class PeerTransport:
    """What carries the bytes of a peer."""

    name: str
    """Transport: "software", "hardware", "devmem" or "io_uring"."""
    local: TransportEnd
    """This end."""
    remote: TransportEnd
    """The peer's end. It says itself which NICs it has."""
    channels: int
    """Channels each way that both ends agreed on, made or not."""
    chunk_bytes: int
    """Bytes of a chunk that both ends agreed on."""
    encrypted: bool
    """Whether everything that crosses the network is encrypted."""
    zero_copy: str
    """Which way no processor of this host copies bytes on channels: "no", "sends", "receives",
    "sends and receives", or "sends where the system can"."""
    one_sided: str
    """Path of reads and writes: "control link", "channels", or the link up to a number of bytes."""


@dataclass(frozen=True)
class PeerReport:
    """One peer, as a device of this agent has it."""

    name: str
    """Name of the peer; of its GPU 1 with "/gpu1" behind it."""
    state: str
    """State of the peer in words."""
    chunk_bytes: int
    """Bytes of a chunk that both ends agreed on."""
    transport: PeerTransport | None
    """What carries its bytes. None: its link is not proven yet, or has ended."""
    link_encrypted: bool
    """Whether the control link is encrypted."""
    link_tcp: TcpStats
    """TCP connection of the control link."""
    messages_sent: int
    """Sends that were matched, or went ahead of their receives."""
    messages_received: int
    """Receives that were matched."""
    eager_sent: EagerStats
    """Outgoing messages on the control link; no channel counts them."""
    eager_received: EagerStats
    """Incoming messages there."""
    one_sided: OneSidedStats
    """What the peer has done with this agent's memory, and notifications."""
    notifications_waiting: int
    """Notifications from the peer that wait here for the program."""
    errors: int
    """Operations that ended with an error, cancelled ones included."""
    operations: int
    """Posted operations that have not ended."""
    announced: int
    """Receives posted by the peer that match no send of this agent."""
    unannounced: int
    """Receives of this agent that the peer has no room for yet. They wait here."""
    eager_unreceived: int
    """Messages that went ahead to the peer, and whose receive is not known yet."""
    eager_kept: int
    """Messages from the peer that wait here for their receives."""
    channels: tuple[ChannelReport, ...]
    """Channels, in order. Empty until they are made."""

    @property
    def sent_bytes(self) -> int:
        """Returns the bytes to the peer, on channels and on the control link."""
        on_link = self.eager_sent.bytes + self.one_sided.link_bytes_sent
        return on_link + sum(channel.send.bytes for channel in self.channels)

    @property
    def received_bytes(self) -> int:
        """Returns the bytes from the peer, likewise."""
        on_link = self.eager_received.bytes + self.one_sided.link_bytes_received
        return on_link + sum(channel.recv.bytes for channel in self.channels)


@dataclass(frozen=True)
class Totals:
    """Totals over all peers, those that are gone included."""

    messages_sent: int
    """Sends that were matched, or went ahead of their receives."""
    messages_received: int
    """Receives that were matched."""
    eager_sent: EagerStats
    """Outgoing messages on the control link; no channel counts them."""
    eager_received: EagerStats
    """Incoming messages there."""
    one_sided: OneSidedStats
    """What peers have done with this agent's memory, and notifications."""
    errors: int
    """Operations that ended with an error, cancelled ones included."""
    send: ChannelStats
    """Outgoing chunks of all channels."""
    recv: ChannelStats
    """Incoming chunks of all channels."""


@dataclass(frozen=True)
class AlarmReport:
    """Trouble that was noticed while running."""

    id: str
    """Id of the diagnosis, as `tcpx explain` takes it."""
    title: str
    """Title of the diagnosis."""
    count: int
    """How often the trouble began. Trouble that lasts counts once."""


@dataclass(frozen=True)
class SessionReport:
    """One device of an agent, at one moment."""

    name: str
    """Name of the agent."""
    device: str
    """Device: "host", or "gpu" with the GPU's ordinal."""
    transport: str
    """Transport: "software", "hardware" or "devmem"."""
    plugin_name: str
    """Name that the plugin has for itself."""
    plugin_path: str
    """Path that the plugin came from."""
    device_memory: str
    """Kind of device memory: "emulated" or "cuda"."""
    encryption: str
    """Setting of encryption in use: "off", "prefer" or "require"."""
    not_encrypted: str | None
    """Why the transport encrypts nothing where encryption is preferred."""
    unpack: str
    """Unpack backend."""
    unpack_why: str
    """Why it is this one."""
    unpack_batches: int
    """Batches of chunks that were unpacked, or gathered from device memory."""
    unpack_ns: int
    """Nanoseconds from the submit of a batch until it was seen to be finished, summed."""
    stages: StageTimes
    """What the time went to."""
    staging: StagingTimes | None
    """Copies between GPUs and pinned memory. None with a hardware plugin."""
    staging_memory: StagingMemory
    """Memory in which scattered small sends are gathered."""
    peers_failed: int
    """Peers that failed so far."""
    alarms: tuple[AlarmReport, ...]
    """Trouble that was noticed. Empty when all is well."""
    peers_parked: int
    """Peers that have ended while something still uses their memory."""
    plugin_calls_hung: int
    """Calls of the plugin that have not returned for more than 10 s."""
    kept_for_peers_bytes: int
    """Bytes that peers make this agent keep, or may, beyond 144 KiB for each."""
    notifications_waiting: int
    """Notifications that wait here for the program."""
    total: Totals
    """Totals since the agent was made."""
    peers: tuple[PeerReport, ...]
    """Current peers by name."""
    nics: tuple[ChannelReport, ...]
    """Totals by NIC, in the order of their names."""


@dataclass(frozen=True)
class PeerRate:
    """Speed of a peer between two `AgentStats`, in 10^9 bytes a second."""

    device: str
    """Device of this agent."""
    peer: str
    """Name of the peer, as in `PeerReport`."""
    sent_gb_per_s: float
    """Bytes to the peer."""
    received_gb_per_s: float
    """Bytes from the peer."""


@dataclass(frozen=True)
class AgentStats:
    """Statistics of an agent at one moment."""

    time_s: float
    """The moment, in seconds of `time.monotonic`."""
    sessions: tuple[SessionReport, ...]
    """A report for each device in use, the host's first; of an agent with `gpu`, that GPU's alone."""

    @classmethod
    def read(cls, text: str) -> AgentStats:
        """Returns the statistics that are in a JSON array of reports, as of now."""
        return cls(time.monotonic(), read(tuple[SessionReport, ...], json.loads(text)))

    def peer(self, name: str) -> tuple[PeerReport, ...]:
        """Returns the reports on a peer: one for each device here and there that are connected.

        `name` is the peer's first one, where it was added under several. Empty for one that is
        not there.
        """
        reports = [peer for session in self.sessions for peer in session.peers]
        return tuple(it for it in reports if _DEVICE.sub("", it.name) == name)

    def rates(self, earlier: AgentStats) -> tuple[PeerRate, ...]:
        """Returns the speed of each peer since earlier statistics of the same agent.

        Peers that have come since, or come again, are left out; so are all when no time has passed.
        """
        seconds = self.time_s - earlier.time_s
        if seconds <= 0:
            return ()
        before = {(it.device, peer.name): peer for it in earlier.sessions for peer in it.peers}
        rates: list[PeerRate] = []
        for session in self.sessions:
            for peer in session.peers:
                began = before.get((session.device, peer.name))
                if began is None:
                    continue
                sent = peer.sent_bytes - began.sent_bytes
                received = peer.received_bytes - began.received_bytes
                if min(sent, received) >= 0:
                    scale = seconds * 1e9
                    rates.append(PeerRate(session.device, peer.name, sent / scale, received / scale))
        return tuple(rates)
