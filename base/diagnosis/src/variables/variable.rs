//! Table of the variables that matter to the plugin.

use std::fmt;

use serde::Serialize;

/// Kind of a variable's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum Kind {
    /// An integer in an inclusive range.
    Integer {
        /// Smallest legal value.
        min: i64,
        /// Largest legal value.
        max: i64,
    },
    /// 0, which stands for none, or an integer in an inclusive range.
    ZeroOr {
        /// Smallest other value.
        min: i64,
        /// Largest legal value.
        max: i64,
    },
    /// The word `auto`, or an integer from 0 up.
    AutoOr {
        /// Largest legal value.
        max: i64,
    },
    /// A number; off when it is 0, else on.
    Switch,
    /// Any text; off when it is 0, else on.
    AnySwitch,
    /// A number of bytes, with a unit if wanted.
    Bytes,
    /// An IP address and a port.
    Address,
    /// One interface.
    Interface,
    /// A list of interface names or prefixes.
    Interfaces,
    /// CPU ranges for each interface.
    Bindings,
    /// One of several words.
    Choice {
        /// The words.
        words: &'static [&'static str],
    },
    /// A path.
    Path,
    /// Any text.
    Text,
}

/// Effect of a variable on the plugin (3.1.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Effect {
    /// The variable has an effect.
    Acts,
    /// The plugin declares it or looks it up, and never uses it.
    None,
    /// The variable does not exist, though scripts set it.
    Missing,
    /// The variable is NCCL's own; the plugin does not read it.
    Nccl,
}

/// Variable of the plugin or of its deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Variable {
    /// Name of the variable.
    pub name: &'static str,
    /// Kind of the variable's text.
    pub kind: Kind,
    /// The plugin's behaviour when the variable is unset.
    pub default: &'static str,
    /// Effect of the variable.
    pub effect: Effect,
    /// Purpose of the variable, with units where it has any.
    pub note: &'static str,
}

impl Kind {
    /// Returns the legal values in words, `1..8`.
    #[must_use]
    pub fn range(&self) -> String {
        match self {
            Self::Integer { min, max: i64::MAX } => format!("{min} or more"),
            Self::Integer { min, max } => format!("{min}..{max}"),
            Self::ZeroOr { min, max } => format!("0 or {min}..{max}"),
            Self::AutoOr { max } => format!("auto, or 0..{max}"),
            Self::Switch => "0 or 1".to_owned(),
            Self::AnySwitch => "0, or anything else for on".to_owned(),
            Self::Bytes => "bytes, such as 65536, 64M or 64MiB".to_owned(),
            Self::Address => "ADDRESS:PORT".to_owned(),
            Self::Choice { words } => words.join(", "),
            Self::Interface => "an interface".to_owned(),
            Self::Interfaces => "names or prefixes, `=` exact, `^` exclude".to_owned(),
            Self::Bindings => "if:lo-hi,lo-hi;if:lo-hi".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Text => "any text".to_owned(),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Acts => "the plugin",
            Self::None => "no program: the plugin knows it and does nothing with it",
            Self::Missing => "no program: there is no such variable, though scripts set it",
            Self::Nccl => "NCCL itself, not the plugin",
        })
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.note)?;
        writeln!(f, "read by: {}", self.effect)?;
        writeln!(f, "values:  {}", self.kind.range())?;
        write!(f, "default: {}", self.default)
    }
}

/// Returns every variable of the plugin and of its deployments.
#[must_use]
pub fn variables() -> &'static [Variable] {
    TABLE
}

/// Returns the variable of this name.
#[must_use]
pub fn find_variable(name: &str) -> Option<&'static Variable> {
    TABLE.iter().find(|variable| variable.name == name)
}

const fn integer(min: i64, max: i64) -> Kind {
    Kind::Integer { min, max }
}

const fn acts(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    note: &'static str,
) -> Variable {
    Variable { name, kind, default, effect: Effect::Acts, note }
}

const fn idle(name: &'static str, note: &'static str) -> Variable {
    Variable { name, kind: Kind::Text, default: "-", effect: Effect::None, note }
}

const fn missing(name: &'static str, note: &'static str) -> Variable {
    Variable { name, kind: Kind::Text, default: "-", effect: Effect::Missing, note }
}

const fn nccl(name: &'static str, note: &'static str) -> Variable {
    Variable { name, kind: Kind::Text, default: "-", effect: Effect::Nccl, note }
}

const SWITCH: Kind = integer(0, 1);
const SLOWNESS: &str = "TX_COMP,SENDRECV,RX_CTRL";

#[rustfmt::skip]
static TABLE: &[Variable] = &[
    nccl("NCCL_ALGO", "algorithms that NCCL may use"),
    nccl("NCCL_BUFFSIZE", "bytes of a protocol buffer"),
    nccl("NCCL_CROSS_NIC", "whether a ring may change NICs"),
    nccl("NCCL_DEBUG", "level of NCCL's logger, through which the plugin logs"),
    nccl("NCCL_DEBUG_SUBSYS", "subsystems of NCCL's logger"),
    acts("NCCL_DYNAMIC_CHUNK_SIZE", integer(0, 2_147_483_646), "0, which hangs", "bytes of a chunk; the same on both ends"),
    missing("NCCL_GPUDIRECTTCPX_DEBUG_LEVEL", "does not exist"),
    acts("NCCL_GPUDIRECTTCPX_CONNECTION_RETRY", integer(0, i64::MAX), "3", "tries of a socket's handshake; 0 never connects"),
    acts("NCCL_GPUDIRECTTCPX_CTRL_DEV", Kind::Interface, "the data NIC", "NIC of the control sockets"),
    idle("NCCL_GPUDIRECTTCPX_CTRL_SOCKCOND", "looked up, result discarded"),
    acts("NCCL_GPUDIRECTTCPX_CUDA_USE_PRIMARY_CTX", SWITCH, "1", "primary CUDA context or one of its own"),
    acts("NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY", integer(3, 3), "3", "3 = ask RxDM; nothing else is left"),
    acts("NCCL_GPUDIRECTTCPX_FORCE_ACK", SWITCH, "0", "quick acknowledgement after a drained receive"),
    missing("NCCL_GPUDIRECTTCPX_MIN_ZCOPY_SIZE", "does not exist; NCCL_MIN_ZCOPY_SIZE does, for host sends"),
    idle("NCCL_GPUDIRECTTCPX_NIC_N_RXQS", "looked up, not used"),
    idle("NCCL_GPUDIRECTTCPX_PORT_BEGIN", "declared, never read: ports are ephemeral"),
    idle("NCCL_GPUDIRECTTCPX_PORT_END", "declared, never read: ports are ephemeral"),
    idle("NCCL_GPUDIRECTTCPX_PORT_MAPPING", "its parser is never called"),
    acts("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", integer(1, i64::MAX), "5000000", "microseconds that accept sleeps at its end"),
    acts("NCCL_GPUDIRECTTCPX_RECV_SYNC", SWITCH, "0", "rendezvous for each message; the same on both ends"),
    acts("NCCL_GPUDIRECTTCPX_REG_DMABUF_USE_INTERNAL_API", SWITCH, "0", "/proc/driver/nvp2p_dma_buf instead of CUDA's export"),
    acts("NCCL_GPUDIRECTTCPX_REPORT_LIFECYCLE", SWITCH, "0", "register with RxDM at init"),
    acts("NCCL_GPUDIRECTTCPX_RX_BINDINGS", Kind::Bindings, "the NIC's NUMA node", "cores of receiving helper threads"),
    missing("NCCL_GPUDIRECTTCPX_RX_COMPLETION_NANOSLEEP", "does not exist; TX_COMPLETION_NANOSLEEP does"),
    idle("NCCL_GPUDIRECTTCPX_RX_IRQ_BINDINGS", "parsed, not used"),
    acts("NCCL_GPUDIRECTTCPX_SCHED_ALG", Kind::Choice { words: &["RR", "KATY"] }, "RR", "how chunks are spread over sockets"),
    acts("NCCL_GPUDIRECTTCPX_SLOWNESS_REPORT", Kind::Text, SLOWNESS, "which slowness is logged; list or ALL"),
    acts("NCCL_GPUDIRECTTCPX_SLOWNESS_SWITCH", Kind::Text, SLOWNESS, "which slowness is looked for; list or ALL"),
    acts("NCCL_GPUDIRECTTCPX_SOCKET_ENABLE", SWITCH, "1", "0 switches the plugin off"),
    acts("NCCL_GPUDIRECTTCPX_SOCKET_FAMILY", Kind::Choice { words: &["AF_INET", "AF_INET6"] }, "any", "address family; IPv6 does not work"),
    acts("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", Kind::Interfaces, "chosen automatically", "data NICs, at most 16"),
    acts("NCCL_GPUDIRECTTCPX_SPINWAIT_CONNECT", SWITCH, "1", "without effect in 3.1.9; keep 1"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_ENABLE_REQUEST_LEVEL_STATS", SWITCH, "0", "statistics for each request"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_ENABLE_TASK_LEVEL_STATS", SWITCH, "0", "statistics for each task"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_CORE_INDEX", integer(0, i64::MAX), "171", "core of the exporting thread"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_PATH", Kind::Path, "-", "directory of statistics files"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE", SWITCH, "0", "needs TELEMETRY_EXPORTER_PATH"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_FILE_LIFE", integer(0, i64::MAX), "1440", "life of a statistics file"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_FILE_REMOVE_FREQUENCY", integer(0, i64::MAX), "86400", "how often old files are removed"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_GARBAGE_COLLECTOR_INDEX", integer(0, i64::MAX), "172", "core of the removing thread"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_LOG_LINE_LIMIT", integer(1, 256), "256", "lines of statistics"),
    acts("NCCL_GPUDIRECTTCPX_TELEMETRY_SAMPLING_FACTOR", integer(1, 999_999), "1", "one sample in this many"),
    acts("NCCL_GPUDIRECTTCPX_LOG_STATS_TO_STDOUT", SWITCH, "0", "statistics on standard output"),
    acts("NCCL_GPUDIRECTTCPX_TIMEOUT_FREQUENCY_NS", integer(100_000, i64::MAX), "30000000000", "nanoseconds between slowness lines; nothing ever fails"),
    acts("NCCL_GPUDIRECTTCPX_TIMEOUT_THRESHOLD_NS", integer(100_000, i64::MAX), "10000000000", "nanoseconds until the first slowness line"),
    acts("NCCL_GPUDIRECTTCPX_TX_BINDINGS", Kind::Bindings, "the NIC's NUMA node", "cores of sending helper threads"),
    acts("NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP", integer(0, i64::MAX), "0", "nanoseconds slept while waiting for zerocopy completions"),
    idle("NCCL_GPUDIRECTTCPX_TX_IRQ_BINDINGS", "parsed, not used"),
    acts("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", Kind::Path, "/tmp", "directory of RxDM's sockets; /run/tcpx on A3 hosts"),
    acts("NCCL_GPUDIRECTTCPX_WORKER_PIN_THREADS", Kind::Text, "off", "pin each helper thread to one core when it starts with 1"),
    acts("NCCL_GPUDIRECTTCPX_WORKER_SPRAY_COUNT", integer(0, i64::MAX), "0", "cores that helper threads are spread over"),
    acts("NCCL_GPUDIRECTTCPX_WORKER_SPRAY_STRIDE", integer(0, i64::MAX), "0", "cores between two helper threads"),
    acts("NCCL_INLINE_THRESHOLD", integer(0, 2048), "0", "bytes sent on the control socket; keep 0 with CUDA"),
    nccl("NCCL_MAX_NCHANNELS", "NCCL's channels, at most"),
    nccl("NCCL_MIN_NCHANNELS", "NCCL's channels, at least"),
    acts("NCCL_MIN_ZCOPY_SIZE", integer(0, i64::MAX), "0, never", "bytes from which host sends use zerocopy"),
    nccl("NCCL_NET_GDR_LEVEL", "how far GPU and NIC may be apart"),
    acts("NCCL_NSOCKS_PERTHREAD", integer(1, 8), "1", "data sockets of a helper thread; the listener's value counts"),
    nccl("NCCL_P2P_NET_CHUNKSIZE", "bytes of a point-to-point chunk over the network"),
    nccl("NCCL_P2P_NVL_CHUNKSIZE", "bytes of a point-to-point chunk over NVLink"),
    nccl("NCCL_P2P_PCI_CHUNKSIZE", "bytes of a point-to-point chunk over PCI"),
    nccl("NCCL_P2P_PXN_LEVEL", "0 keeps messages on the GPU's own NIC"),
    nccl("NCCL_PROTO", "protocols that NCCL may use; the plugin needs Simple"),
    idle("NCCL_SCATTER_COPY_MIN_MESSAGE_SIZE", "declared, never read"),
    nccl("NCCL_SOCKET_IFNAME", "NICs of NCCL's own bootstrap"),
    acts("NCCL_SOCKET_NTHREADS", integer(1, 16), "1", "helper threads of a comm; above 8 there is no socket left"),
    idle("NCCL_STAGING_BUFFER_SIZE", "declared, never read"),
    acts("NCCL_TCPX_RXMEM_IMPORT_SKIP_ODDS", SWITCH, "0", "1 leaves odd GPUs without a bounce buffer"),
    acts("NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT", SWITCH, "1", "0 looks for the legacy file /tmp/nvdma-PCI"),
    acts("NCCL_THREAD_SPIN_ENABLE", SWITCH, "0", "helper threads spin"),
    acts("NCCL_USE_DMA_BUF", SWITCH, "1", "0 makes CUDA registrations fail"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = TABLE.iter().map(|variable| variable.name).collect();
        assert_eq!(names.len(), TABLE.len());
    }
}
