"""Counters of `stats`: chunks, messages, requests, and where time and memory went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TcpStats:
    """TCP connections on which bytes are sent. All are 0 with the hardware plugin."""

    connections: int
    """Open connections on which bytes were sent."""
    retransmits: int
    """Segments that the kernel has sent again."""
    rtt_us_sum: int
    """Smoothed round-trip times of the open connections in microseconds, summed."""
    rtt_us_max: int
    """The longest of them."""


@dataclass(frozen=True)
class ChannelStats:
    """Chunks of one direction."""

    chunks: int
    """Chunks sent, or received and unpacked."""
    bytes: int
    """Bytes of those chunks."""
    fragments: int
    """Fragments that receives arrived in."""
    fragments_merged: int
    """Those that were merged into a neighbour before unpacking."""
    window_full: int
    """Rounds in which a chunk waited because the window was full, or the staging buffer."""
    credit_waits: int
    """Rounds in which a chunk waited for room in the peer's bounce buffer."""
    plugin_busy: int
    """How often the plugin refused a request for now."""
    window_peak: int
    """Most requests that were ever in flight."""
    window_sum: int
    """Requests in flight, summed over all posts: by `posts` it is the mean."""
    posts: int
    """Requests posted to the plugin."""
    gathered: int
    """Chunks of scattered small messages that were gathered to be sent."""
    gathered_bytes: int
    """Bytes of those chunks."""


@dataclass(frozen=True)
class ChannelReport:
    """Both directions of a channel, or of all channels over a NIC."""

    nic: str
    """NIC that the channel runs over."""
    send: ChannelStats
    """Outgoing chunks."""
    recv: ChannelStats
    """Incoming chunks."""
    tcp: TcpStats
    """TCP connections over which chunks are sent."""
    lost: int
    """Losses: 1 for a channel that is lost while work goes on over the peer's others."""


@dataclass(frozen=True)
class EagerStats:
    """Messages on the control link."""

    messages: int
    """Messages of one direction."""
    bytes: int
    """Their bytes."""


@dataclass(frozen=True)
class OneSidedStats:
    """Reads and writes of this agent's memory by peers, and notifications."""

    writes_served: int
    """Writes of peers that are done."""
    reads_served: int
    """Reads of peers that were sent to the end."""
    bytes_written: int
    """Bytes that peers have written, also with writes that were stopped in the middle."""
    bytes_read: int
    """Bytes that peers have read, likewise."""
    refused_key: int
    """Requests that were refused because the peer has no key to the memory."""
    refused_range: int
    """Requests that reach past what is exported."""
    refused_access: int
    """Requests that the key does not allow."""
    refused_otherwise: int
    """Requests that were refused for other reasons."""
    revoked: int
    """Requests that were refused or stopped because the export was taken back."""
    notifications_sent: int
    """Notifications that were sent, by themselves or with operations."""
    notifications_unsent: int
    """Those that still waited for room at a peer when it ended: they are lost."""
    notifications_received: int
    """Notifications that the program got, or can take."""
    ranges_told: int
    """Ranges that peers were sent in lists of operations, each list once."""
    link_bytes_sent: int
    """Bytes of reads and writes of either end that went over the control link, and no channel."""
    link_bytes_received: int
    """Bytes of reads and writes that came there."""


@dataclass(frozen=True)
class StageTimes:
    """What a session's time went to, in nanoseconds."""

    idle_ns: int
    """Nothing was in progress."""
    sending_ns: int
    """Chunks were being sent, and nothing was received or unpacked."""
    receiving_ns: int
    """Receives waited for the network and the peer, and nothing was unpacked."""
    receiving_and_unpacking_ns: int
    """Receives waited, while chunks were being unpacked."""
    unpacking_ns: int
    """Chunks were being unpacked, and no receive waited."""
    submitting_ns: int
    """Chunks were being submitted to the unpacker."""


@dataclass(frozen=True)
class StagingTimes:
    """Copies of the software plugin between GPUs and pinned memory, of the whole process."""

    down_bytes: int
    """Bytes copied from GPUs, to be sent."""
    down_ns: int
    """Nanoseconds in which a channel had such a copy in progress, summed over channels."""
    up_bytes: int
    """Bytes copied to a bounce region in GPU memory."""
    up_ns: int
    """Nanoseconds of those, likewise."""


@dataclass(frozen=True)
class StagingMemory:
    """Memory in which scattered small sends are gathered."""

    limit_bytes: int
    """The option `staging_bytes`, or less where there was no memory."""
    allocated_bytes: int
    """Bytes that are allocated, used or not."""
    used_bytes: int
    """Bytes that open channels have for themselves."""
