"""GPU and host memory between processes and hosts, over TCP.

>>> import tcpx
>>> with tcpx.Agent("decode-0") as agent, tcpx.Agent("prefill-0") as other:
...     remote = other.export(bytearray(b"hello")).descriptor
...     peer = agent.add(other.address)
...     here = bytearray(5)
...     agent.read(here, remote).wait(timeout=10)
...     bytes(here)
b'hello'

An `Agent` has an address, which goes to other agents over any channel that is trusted. `export`
makes memory known, and its `descriptor` lets other agents read or write it. Every operation is a
`Transfer`, which `await` and `Transfer.wait` understand. Errors are `tcpx.Error`.
"""

from ._agent import Agent
from ._errors import (
    BadMemory,
    Cancelled,
    Closed,
    ConfigError,
    Error,
    PeerLost,
    Refused,
    Timeout,
)
from ._memory import Buffer, Region, Remote
from ._peers import Notification, Notifications, Peer
from ._transfer import Transfer

__all__ = [
    "Agent",
    "BadMemory",
    "Buffer",
    "Cancelled",
    "Closed",
    "ConfigError",
    "Error",
    "Notification",
    "Notifications",
    "Peer",
    "PeerLost",
    "Refused",
    "Region",
    "Remote",
    "Timeout",
    "Transfer",
]
