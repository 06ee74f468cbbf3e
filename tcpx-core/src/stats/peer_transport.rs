//! Description of what carries the bytes of a peer. The log, the reports, the metrics and the
//! `tcpx` command all render it. Pure.

use std::fmt;

use serde::{Serialize, Serializer};
use tcpx_protocol::frames::eager_terms::EagerTerms;
use tcpx_protocol::types::MemoryType;
use tcpx_protocol::types::nic::NicLinks;

/// Sends for which no processor of the host copies the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZeroCopySends {
    /// None: the kernel copies what is sent.
    #[default]
    No,
    /// Long ones, on connections where the system turns out not to copy them after all.
    WherePossible,
    /// All on channels.
    Yes,
}

/// Part of the way on which no processor of the host copies the bytes on channels. Unpacking comes
/// after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZeroCopy {
    /// From where they lie to the NIC.
    pub sends: ZeroCopySends,
    /// From the NIC to where they are unpacked from.
    pub receives: bool,
}

impl ZeroCopy {
    /// Sends and receives by a NIC that reaches the memory.
    pub(crate) const BOTH: Self = Self { sends: ZeroCopySends::Yes, receives: true };
}

impl fmt::Display for ZeroCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.sends, self.receives) {
            (ZeroCopySends::No, false) => "no",
            (ZeroCopySends::No, true) => "receives",
            (ZeroCopySends::WherePossible, false) => "sends where the system can",
            (ZeroCopySends::WherePossible, true) => "receives, and sends where the system can",
            (ZeroCopySends::Yes, false) => "sends",
            (ZeroCopySends::Yes, true) => "sends and receives",
        })
    }
}

impl Serialize for ZeroCopy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Path of reads and writes of a peer's memory, and of the peer's, where both ends use memory of
/// the session's own device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OneSidedPath {
    /// The channels.
    #[default]
    Channels,
    /// The control link, while no more than this many bytes are under way there; then the channels.
    LinkUpTo(u64),
    /// The control link.
    Link,
}

impl OneSidedPath {
    /// Returns the path by the terms that both ends have agreed on.
    pub(crate) fn new(terms: &EagerTerms) -> Self {
        match terms.access_limit(MemoryType::Device) {
            0 => Self::Channels,
            u64::MAX => Self::Link,
            bytes => Self::LinkUpTo(bytes),
        }
    }
}

impl fmt::Display for OneSidedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channels => f.write_str("channels"),
            Self::LinkUpTo(bytes) => write!(f, "control link up to {bytes} bytes, or channels"),
            Self::Link => f.write_str("control link"),
        }
    }
}

impl Serialize for OneSidedPath {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// One end of the way to a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TransportEnd {
    /// Address of this end of the control link; with its port at the peer. Empty: not known.
    pub address: String,
    /// NICs over which the channels run, or will once they are made. At most eight; empty: not
    /// known.
    pub nics: NicLinks,
}

impl fmt::Display for TransportEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.address, self.nics)
    }
}

/// Facts about what carries the bytes between a session and a peer, from when the peer's link is
/// proven.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeerTransport {
    /// `"software"`, `"hardware"`, `"devmem"` or `"io_uring"`.
    pub name: String,
    /// This end.
    pub local: TransportEnd,
    /// The peer's end. It says itself which NICs it has.
    pub remote: TransportEnd,
    /// Number of channels each way that both ends agreed on, made or not.
    pub channels: u16,
    /// Number of bytes of a chunk that both ends agreed on.
    pub chunk_bytes: u32,
    /// Whether everything that crosses the network is encrypted.
    pub encrypted: bool,
    /// Whether processors of this host copy the bytes on channels.
    pub zero_copy: ZeroCopy,
    /// Path of reads and writes.
    pub one_sided: OneSidedPath,
}

impl PeerTransport {
    /// Returns the facts that `tcpx perf` adds to its own, as a sentence has them.
    pub fn in_words(&self) -> String {
        let Self { local, remote, zero_copy, one_sided, .. } = self;
        let encrypted = if self.encrypted { "encrypted" } else { "not encrypted" };
        format!(
            "{local} to {remote}, {encrypted}, zero copy: {zero_copy}, reads and writes: {one_sided}"
        )
    }

    /// Returns the facts as text by name, in the order in which they are written.
    pub fn facts(&self) -> [(&'static str, String); 10] {
        [
            ("transport", self.name.clone()),
            ("from", self.local.address.clone()),
            ("to", self.remote.address.clone()),
            ("nics", self.local.nics.to_string()),
            ("peer_nics", self.remote.nics.to_string()),
            ("channels", self.channels.to_string()),
            ("chunk_bytes", self.chunk_bytes.to_string()),
            ("encrypted", self.encrypted.to_string()),
            ("zero_copy", self.zero_copy.to_string()),
            ("one_sided", self.one_sided.to_string()),
        ]
    }
}

impl fmt::Display for PeerTransport {
    /// Writes the facts as a line of a log has its fields: `transport=software channels=2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, fact)) in self.facts().into_iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let is_word = !fact.is_empty() && !fact.contains([' ', '"', ':']);
            match is_word {
                true => write!(f, "{space}{name}={fact}")?,
                false => write!(f, "{space}{name}={fact:?}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tcpx_protocol::frames::eager_terms::EagerOffer;
    use tcpx_protocol::types::nic::NicLink;

    use super::*;

    #[test]
    fn a_line_has_every_fact_by_its_name() {
        let end = |address: &str, nic| TransportEnd {
            address: address.into(),
            nics: NicLinks::first([NicLink::new(nic, Some(25_000))]),
        };
        let transport = PeerTransport {
            name: "software".into(),
            local: end("10.0.0.1", "eth0"),
            remote: end("10.0.0.2:4711", "ens5"),
            channels: 2,
            chunk_bytes: 524_288,
            ..PeerTransport::default()
        };
        assert_eq!(
            transport.to_string(),
            "transport=software from=10.0.0.1 to=\"10.0.0.2:4711\" nics=\"eth0 (25 Gbit/s)\" \
             peer_nics=\"ens5 (25 Gbit/s)\" channels=2 chunk_bytes=524288 encrypted=false \
             zero_copy=no one_sided=channels"
        );
    }

    #[test]
    fn reads_and_writes_take_the_path_that_both_ends_agreed_on() {
        let path = |access_bytes, device_bytes| {
            let offer = EagerOffer { bytes: 16 << 10, buffer_bytes: 0, device_bytes, access_bytes };
            OneSidedPath::new(&EagerTerms::agree(offer, offer, 1 << 19)).to_string()
        };
        assert_eq!(path(u64::MAX, u64::MAX), "control link");
        assert_eq!(path(1 << 20, u64::MAX), "control link up to 1048576 bytes, or channels");
        assert_eq!(path(1 << 20, 262_144), "control link up to 262144 bytes, or channels");
        assert_eq!(path(u64::MAX, 0), "channels");
        assert_eq!(OneSidedPath::new(&EagerTerms::OFF), OneSidedPath::Channels);
    }
}
