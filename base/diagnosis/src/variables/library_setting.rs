//! Table of this library's own variables, which a session, the `tcpx` command and the software
//! plugin read.

use std::fmt;

use serde::Serialize;

use super::variable::Kind;

/// Reader of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reader {
    /// Every session that takes its options from the environment, and the `tcpx` command.
    Session,
    /// The `tcpx` command alone.
    Command,
    /// The software plugin.
    SoftwarePlugin,
    /// The backend for NIXL.
    NixlBackend,
    /// A double of the software plugin that misbehaves for tests. The plugin itself refuses the
    /// variable.
    FaultScript,
}

/// Variable of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LibrarySetting {
    /// Name of the variable.
    pub name: &'static str,
    /// Name that UCCL's programs use. It is read where the variable itself is not set.
    pub alias: Option<&'static str>,
    /// Reader of the variable.
    pub reader: Reader,
    /// Kind of the variable's text.
    pub kind: Kind,
    /// Behaviour when the variable is unset.
    pub default: &'static str,
    /// Purpose of the variable, with units where it has any.
    pub note: &'static str,
}

impl LibrarySetting {
    /// Returns the names of the variable. The name that takes precedence comes first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.name), self.alias].into_iter().flatten()
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Session => "every session that takes its options from the environment",
            Self::Command => "the tcpx command",
            Self::SoftwarePlugin => "the software plugin",
            Self::NixlBackend => "the backend for NIXL",
            Self::FaultScript => {
                "doubles of the software plugin, which misbehave for tests; the plugin refuses it"
            }
        })
    }
}

impl fmt::Display for LibrarySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        writeln!(f, "{}: {}", names.join(", "), self.note)?;
        writeln!(f, "read by: {}", self.reader)?;
        writeln!(f, "values:  {}", self.kind.range())?;
        write!(f, "default: {}", self.default)
    }
}

/// Returns every variable of this library, by reader and in reading order.
#[must_use]
pub fn library_settings() -> &'static [LibrarySetting] {
    TABLE
}

/// Returns the setting with this name or alias.
#[must_use]
pub fn find_library_setting(name: &str) -> Option<&'static LibrarySetting> {
    TABLE.iter().find(|setting| setting.names().any(|known| known == name))
}

const fn row(
    reader: Reader,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    note: &'static str,
) -> LibrarySetting {
    LibrarySetting { name, alias: None, reader, kind, default, note }
}

const fn session(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    note: &'static str,
) -> LibrarySetting {
    row(Reader::Session, name, kind, default, note)
}

const fn command(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    note: &'static str,
) -> LibrarySetting {
    row(Reader::Command, name, kind, default, note)
}

const fn soft(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    note: &'static str,
) -> LibrarySetting {
    row(Reader::SoftwarePlugin, name, kind, default, note)
}

const fn fault(name: &'static str, kind: Kind, note: &'static str) -> LibrarySetting {
    row(Reader::FaultScript, name, kind, "-", note)
}

const fn also(setting: LibrarySetting, alias: &'static str) -> LibrarySetting {
    LibrarySetting { alias: Some(alias), ..setting }
}

const fn upto(max: i64) -> Kind {
    Kind::Integer { min: 0, max }
}

const fn from(min: i64, max: i64) -> Kind {
    Kind::Integer { min, max }
}

const fn choice(words: &'static [&'static str]) -> Kind {
    Kind::Choice { words }
}

const SWITCH: Kind = upto(1);
/// A day in milliseconds.
const DAY_MS: i64 = 86_400_000;

#[rustfmt::skip]
static TABLE: &[LibrarySetting] = &[
    also(session("TCPX_PLUGIN", Kind::Text, "auto", "which plugin moves the bytes: auto, soft, devmem or the path of a file"), "UCCL_TCPX_PLUGIN_PATH"),
    session("TCPX_GPU", upto(u32::MAX as i64), "none", "CUDA ordinal of the GPU whose memory is moved; none: host memory, emulated device memory"),
    session("TCPX_NIC", Kind::Text, "chosen for each peer", "NICs by name, with commas between them"),
    also(session("TCPX_CHANNELS", upto(64), "0", "channels to each peer; two ends agree on the smaller number; 0: chosen, 2 to 8 by the processors over the software plugin, else 2"), "UCCL_TCPX_NUM_CHANNELS"),
    session("TCPX_CONNECT_CHANNELS", Kind::Switch, "0, 1 for the tcpx command", "connect makes and proves the channels also where messages travel on the control link; else they are made when something needs them"),
    also(session("TCPX_CHUNK_BYTES", from(4096, 4 << 20), "524288, or less", "bytes of a chunk; no more than NCCL_DYNAMIC_CHUNK_SIZE"), "UCCL_TCPX_CHUNK_BYTES"),
    also(session("TCPX_UNPACK", choice(&["auto", "host", "d2d", "kernel"]), "auto", "how fragments are copied to their destination"), "UCCL_TCPX_UNPACK_IMPL"),
    also(session("TCPX_RECV_WINDOW", from(1, 16), "16", "receives in flight on a channel"), "UCCL_TCPX_MAX_RECV_INFLIGHT"),
    also(session("TCPX_SEND_WINDOW", from(1, 16), "12", "sends in flight on a channel"), "UCCL_TCPX_MAX_SEND_INFLIGHT"),
    session("TCPX_COPY_THREADS", Kind::AutoOr { max: 64 }, "auto: 3 of 8 processors, none on fewer than 8", "threads that copy what was received to ordinary memory; 0: the thread that makes progress copies"),
    session("TCPX_GATHER", Kind::Switch, "1", "scattered small sends are copied together, so that they share a chunk"),
    session("TCPX_BOUNCE_CREDIT", choice(&["auto", "on", "off"]), "auto", "peers send only what the bounce buffer has room for"),
    session("TCPX_STAGING_BYTES", upto(i64::MAX), "268435456", "most bytes in which scattered small sends are gathered; 0 for none"),
    session("TCPX_EAGER_BYTES", upto(65_536), "16384", "longest message that travels on the control link; 0 for none"),
    session("TCPX_EAGER_BUFFER_BYTES", upto(1 << 30), "262144", "most bytes that a peer sends ahead of receives that are not posted"),
    session("TCPX_LINK_BYTES", Kind::AutoOr { max: i64::MAX }, "auto: 262144, any number on fewer than 5 processors with the software plugin", "longest read or write of a peer's memory that travels on the control link, in bytes; 0: none longer than TCPX_EAGER_BYTES"),
    session("TCPX_NOTIFICATION_BYTES", from(131_072, 1 << 30), "1048576", "room for notifications of each peer that the program has not taken, in bytes"),
    session("TCPX_KEPT_FOR_PEERS_BYTES", upto(1 << 40), "268435456", "most bytes that peers together make a session keep for them (announced receives, lists, messages ahead of receives, notifications), beside 144 KiB for each"),
    session("TCPX_ENCRYPTION", choice(&["off", "prefer", "require"]), "off", "what crosses the network is encrypted, on the control link and on the channels: off, with peers that do not have it off, or with every peer, where one that has it off is refused"),
    session("TCPX_TLS_CERT", Kind::Text, "none", "file with the certificate of this end in PEM, and those between it and its authority; with encryption, and at all ends"),
    session("TCPX_TLS_KEY", Kind::Text, "none", "file with the private key of TCPX_TLS_CERT in PEM"),
    session("TCPX_TLS_CA", Kind::Text, "none", "file with the certificates of the authorities of peers in PEM"),
    session("TCPX_ACCEPT_ALL", Kind::Switch, "0", "every peer that connects and proves itself is accepted at once"),
    session("TCPX_EMULATED_GPUS", upto(64), "0", "GPUs that ordinary memory stands in for in a group; 0: its GPUs are real"),
    session("TCPX_LISTEN", Kind::Address, "0.0.0.0:0", "address of the control listener; port 0 lets the system choose"),
    session("TCPX_CONNECT_TIMEOUT_MS", upto(i64::MAX), "30000", "milliseconds that accept and connect wait"),
    session("TCPX_CLOSE_TIMEOUT_MS", upto(i64::MAX), "5000", "milliseconds that a goodbye is waited for"),
    session("TCPX_PEER_TIMEOUT_MS", Kind::ZeroOr { min: 100, max: DAY_MS }, "10000", "milliseconds that a peer may be silent; 0: for ever"),
    session("TCPX_STALL_AFTER_MS", Kind::ZeroOr { min: 1, max: DAY_MS }, "10000", "milliseconds without progress until a warning is logged; 0: never"),
    session("TCPX_PROGRESS_THREAD", Kind::Switch, "1 in C and C++ programs, else 0", "a thread of the session drives progress"),
    session("TCPX_SPIN_US", upto(i64::MAX), "200", "microseconds for which a waiting thread looks again before it sleeps"),
    session("TCPX_PREFLIGHT", Kind::Switch, "1", "a plugin's file is only loaded after the checks; 0 at your own risk"),
    session("TCPX_KEEP_SIGPIPE", Kind::Switch, "0", "SIGPIPE keeps its default action, which ends the process"),
    row(Reader::NixlBackend, "TCPX_METRICS_DIR", Kind::Text, "none", "folder to which each agent's page of metrics is written, once in a second, for tcpx top and Prometheus"),
    also(command("TCPX_DEBUG", Kind::AnySwitch, "0", "log what the library does"), "UCCL_TCPX_DEBUG"),
    also(command("TCPX_LAUNCH_DEBUG", Kind::AnySwitch, "0", "log every unpack descriptor, too"), "UCCL_TCPX_LAUNCH_DEBUG"),
    also(command("TCPX_PERF_SIZE", Kind::Bytes, "64MiB, with --latency, --messages or --descriptors 4KiB", "bytes of a message of `tcpx perf`, as --size"), "UCCL_TCPX_PERF_SIZE"),
    also(command("TCPX_PERF_ITERS", from(1, u32::MAX as i64), "20, with --latency 1000, with --messages 5, with --op write or read 10", "measured iterations of `tcpx perf`, as --iters"), "UCCL_TCPX_PERF_ITERS"),
    soft("TCPX_SOFT_IFNAME", Kind::Interfaces, "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "interfaces that the software plugin offers"),
    soft("TCPX_SOFT_TRANSPORT", choice(&["tcp", "devmem", "auto", "io_uring"]), "tcp", "what carries payload: plain sockets, the kernel's device-memory TCP, that for memory of GPUs where it can be had, which plugin = auto asks for, or plain sockets that io_uring receives from without copies"),
    soft("TCPX_SOFT_HELPERS", choice(&["auto", "0", "1"]), "auto", "threads of the plugin's own move payload"),
    soft("TCPX_SOFT_CPUS", Kind::Text, "auto", "where these threads run: auto (on the NIC's NUMA node), off (anywhere), or processors such as 0-3,8"),
    soft("TCPX_SOFT_INLINE_BYTES", upto(32_768), "8192", "longest message on the plugin's control socket"),
    soft("TCPX_SOFT_POOL_BYTES", from(4096, 1 << 32), "268435456", "bytes of the bounce region, a multiple of 4096"),
    soft("TCPX_SOFT_MEMORY", choice(&["auto", "emulated", "cuda"]), "auto", "what device memory is"),
    soft("TCPX_SOFT_BOUNCE", choice(&["host", "device"]), "host", "where a GPU finds the bounce region"),
    soft("TCPX_SOFT_NCCL", choice(&["host", "unpack"]), "host", "under NCCL: host memory only, or receives that NCCL's kernels unpack"),
    soft("TCPX_SOFT_POISON", SWITCH, "0", "bounce pages are overwritten when they are given back, so that a late copy shows"),
    soft("TCPX_SOFT_CONNECT_TIMEOUT_MS", from(1, 3_600_000), "20000", "milliseconds that one connect or accept of the plugin may take"),
    soft("TCPX_SOFT_PEER_TIMEOUT_MS", upto(DAY_MS), "10000", "milliseconds that the peer's host may acknowledge nothing; 0: for ever"),
    soft("TCPX_SOFT_ZEROCOPY", choice(&["off", "auto", "on"]), "off", "chunks are sent from the messages' own memory"),
    fault("TCPX_SOFT_SHAPE", Kind::Text, "the shape of fragments"),
    fault("TCPX_SOFT_SEED", upto(i64::MAX), "what the random shapes begin with"),
    fault("TCPX_SOFT_FAULTS", Kind::Text, "which calls go wrong, and how"),
    fault("TCPX_SOFT_ORIGINAL", Kind::Text, "what of the original's habits is taken over"),
    fault("TCPX_SOFT_PACKET_BYTES", from(1, 65_535), "payload of a packet that is made up"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found_by_either_name() {
        let names: Vec<_> = TABLE.iter().flat_map(LibrarySetting::names).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for setting in TABLE {
            for name in setting.names() {
                assert_eq!(find_library_setting(name), Some(setting), "{name}");
            }
        }
        assert_eq!(find_library_setting("TCPX_CHANELS"), None);
    }
}
