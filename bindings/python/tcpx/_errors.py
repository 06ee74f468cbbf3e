"""Exceptions of the package. All of them are `tcpx.Error`."""

from __future__ import annotations


class Error(Exception):
    """An operation, a peer or a setting failed.

    `diagnosis` is the id of a known problem, such as "TCPX-709", or None. `tcpx explain ID` has the
    whole story. `cure` says what to do, one line for each step, or None.
    """

    diagnosis: str | None
    cure: str | None

    def __init__(
        self, message: str = "", diagnosis: str | None = None, cure: str | None = None
    ) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis
        self.cure = cure


class PeerLost(Error, ConnectionError):
    """The peer cannot be reached, went away, or broke the protocol."""


class Timeout(Error, TimeoutError):
    """A wait was over (the operation goes on), or an operation's own time (it was given up)."""


class Refused(Error):
    """The other end refused: a key without that right, one that was taken back, or a handshake."""


class BadMemory(Error, ValueError):
    """Memory, a descriptor or a range cannot be used like this. Nothing was moved."""


class ConfigError(Error, ValueError):
    """A setting, a plugin, an environment variable or a peer's address is wrong."""


class Closed(Error):
    """The agent or the buffer was closed, or the peer was disconnected."""


class Cancelled(Error):
    """The operation was cancelled by `Transfer.cancel`, or with its task."""
