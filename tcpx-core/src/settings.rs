//! Settings of a session. The builder overrules the environment, and the environment the defaults.

pub(crate) mod choices;
mod setters;
mod variables;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tcpx_protocol::types::encryption::Encryption;
use tcpx_protocol::types::{
    LEAST_NOTIFICATION_BYTES, MAX_CHANNELS, MAX_CHUNK_BYTES, MAX_EAGER_BYTES, MIN_CHUNK_BYTES,
};
use tcpx_sys::MAX_REQUESTS;
use tcpx_unpack::{Choice, MemoryKind};

use crate::error::{Error, Result, SettingProblem};
use crate::types::{MAX_COPY_THREADS, MAX_NAME_BYTES};

pub use self::choices::{
    BounceCreditChoice, CopyThreads, HARDWARE_PLUGIN_PATH, LinkBytes, PluginChoice,
};

/// Number of bytes of the full slots of a few dozen channels to a GPU.
const DEFAULT_STAGING_BYTES: u64 = 256 << 20;
/// Longest eager message. Longer messages cost less on a channel, where they are received straight
/// into place.
const DEFAULT_EAGER_BYTES: u32 = 16 << 10;
const DEFAULT_EAGER_BUFFER_BYTES: u32 = 256 << 10;
const MAX_EAGER_BUFFER_BYTES: u32 = 1 << 30;
const DEFAULT_KEPT_FOR_PEERS_BYTES: u64 = 256 << 20;
const MAX_KEPT_FOR_PEERS_BYTES: u64 = 1 << 40;
const DEFAULT_NOTIFICATION_BYTES: u32 = 1 << 20;
const MAX_NOTIFICATION_BUFFER_BYTES: u32 = 1 << 30;
/// Largest number of GPUs of a host.
const MAX_EMULATED_GPUS: u64 = 64;
/// Largest peer timeout: one day. `None` is for longer silence.
const MAX_PEER_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// Options of one session. Start from [`SessionOptions::default`] or [`SessionOptions::from_env`],
/// and change fields, or call the setters that have their names:
///
/// ```
/// use tcpx_core::{PluginChoice, SessionOptions};
///
/// let mut options = SessionOptions::default().plugin(PluginChoice::Soft).channels(4);
/// assert_eq!(options.channels, Some(4));
/// options.gather = false;
/// ```
///
/// | field | variable | default |
/// |---|---|---|
/// | `plugin` | `TCPX_PLUGIN`, `UCCL_TCPX_PLUGIN_PATH` | `auto` |
/// | `gpu` | `TCPX_GPU` | none: host memory, emulated device memory |
/// | `emulated_gpus` | `TCPX_EMULATED_GPUS` | 0 |
/// | `nics` | `TCPX_NIC` | the NIC that reaches the peer, else those nearest to the GPU |
/// | `channels` | `TCPX_CHANNELS`, `UCCL_TCPX_NUM_CHANNELS` | none: chosen |
/// | `connect_channels` | `TCPX_CONNECT_CHANNELS` | 0 |
/// | `chunk_bytes` | `TCPX_CHUNK_BYTES`, `UCCL_TCPX_CHUNK_BYTES` | none: 524288, or less |
/// | `unpack` | `TCPX_UNPACK`, `UCCL_TCPX_UNPACK_IMPL` | `auto` |
/// | `copy_threads` | `TCPX_COPY_THREADS` | `auto` |
/// | `recv_window` | `TCPX_RECV_WINDOW`, `UCCL_TCPX_MAX_RECV_INFLIGHT` | 16 |
/// | `send_window` | `TCPX_SEND_WINDOW`, `UCCL_TCPX_MAX_SEND_INFLIGHT` | 12 |
/// | `gather` | `TCPX_GATHER` | 1 |
/// | `bounce_credit` | `TCPX_BOUNCE_CREDIT` | `auto` |
/// | `staging_bytes` | `TCPX_STAGING_BYTES` | 268435456 |
/// | `eager_bytes` | `TCPX_EAGER_BYTES` | 16384 |
/// | `eager_buffer_bytes` | `TCPX_EAGER_BUFFER_BYTES` | 262144 |
/// | `link_bytes` | `TCPX_LINK_BYTES` | `auto` |
/// | `notification_bytes` | `TCPX_NOTIFICATION_BYTES` | 1048576 |
/// | `kept_for_peers_bytes` | `TCPX_KEPT_FOR_PEERS_BYTES` | 268435456 |
/// | `encryption` | `TCPX_ENCRYPTION` | `off` |
/// | `tls_cert` | `TCPX_TLS_CERT` | none |
/// | `tls_key` | `TCPX_TLS_KEY` | none |
/// | `tls_ca` | `TCPX_TLS_CA` | none |
/// | `accept_all` | `TCPX_ACCEPT_ALL` | 0 |
/// | `listen` | `TCPX_LISTEN` | 0.0.0.0:0 |
/// | `connect_timeout` | `TCPX_CONNECT_TIMEOUT_MS` | 30 s |
/// | `close_timeout` | `TCPX_CLOSE_TIMEOUT_MS` | 5 s |
/// | `peer_timeout` | `TCPX_PEER_TIMEOUT_MS`, 0 for none | 10 s |
/// | `stall_after` | `TCPX_STALL_AFTER_MS`, 0 for none | 10 s |
/// | `progress_thread` | `TCPX_PROGRESS_THREAD` | 1 |
/// | `spin` | `TCPX_SPIN_US` | 200 µs |
/// | `preflight` | `TCPX_PREFLIGHT` | 1 |
/// | `keep_sigpipe` | `TCPX_KEEP_SIGPIPE` | 0 |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Plugin that moves the bytes.
    pub plugin: PluginChoice,
    /// CUDA ordinal of the GPU whose memory is moved. `None`: host memory and emulated device
    /// memory, which a hardware plugin refuses. Such a plugin sends from host memory in a session
    /// with a GPU.
    pub gpu: Option<u32>,
    /// Whether the session covers the host and all GPUs, with one name, one connection info and one
    /// set of peers for all of them. Memory is registered with its [device](crate::Device), and
    /// from then on ids and keys name the device. The first operation between two devices, one here
    /// and one at a peer, connects them. Each device in use has a lock and a progress thread of its
    /// own, whatever `progress_thread` says. Peers that have proven themselves are accepted,
    /// whatever `accept_all` says. Sends and receives by tag are between hosts. Over a hardware
    /// plugin, host memory is sent with the GPU of `gpu`, or with the first GPU.
    pub all_devices: bool,
    /// Number of GPUs that ordinary memory emulates in a session of all devices, for hosts without
    /// GPUs; 0: the GPUs are real. Other sessions ignore it.
    pub emulated_gpus: u32,
    /// NICs by name; channels go round robin over them. Empty: chosen for each peer.
    pub nics: Vec<String>,
    /// Name under which peers' `accept` finds this session; empty: any `accept` takes it.
    pub name: String,
    /// Number of channels to each peer, 1 to [`MAX_CHANNELS`]; two ends agree on the smaller
    /// number. With 0 or `None` the library chooses. Over the hardware plugin it chooses 2. Over
    /// the software plugin it chooses 2 on fewer than 8 processors, else one for two processors and
    /// at most 8. It also chooses 2 if all channels of the process would be more than four for each
    /// processor. Each NIC of `nics` gets one at least.
    pub channels: Option<u16>,
    /// Whether the channels are made, and proven, when a peer is connected. Otherwise they may be
    /// made on first use, within `connect_timeout`. That holds if messages travel on the control
    /// link over the software plugin and `channels` sets no number. A peer whose messages, reads,
    /// writes and notifications all travel on the link then takes one socket and no more. It is
    /// enough that one end sets this option.
    pub connect_channels: bool,
    /// Bytes of a chunk, 4096 to [`MAX_CHUNK_BYTES`]. The limit of a plugin is
    /// NCCL_DYNAMIC_CHUNK_SIZE. The hardware plugin also takes no chunk of more than 2047
    /// fragments, which depends on the MTU of the NICs. A number above either limit is an error.
    /// `None` is [`DEFAULT_CHUNK_BYTES`](crate::DEFAULT_CHUNK_BYTES), or less where the limits are
    /// lower. Two ends agree on the smaller number.
    pub chunk_bytes: Option<u32>,
    /// Backend that copies fragments to their destination. In a session of
    /// [all devices](Self::all_devices) it is that of GPUs' memory: ordinary memory has one alone.
    pub unpack: Choice,
    /// Threads that help to copy fragments to ordinary memory. They begin when there is much to
    /// copy at once, and end with the session. Memory of a GPU needs none.
    pub copy_threads: CopyThreads,
    /// Largest number of receives in flight on a channel, 1 to 16.
    pub recv_window: usize,
    /// Largest number of sends in flight on a channel, 1 to 16.
    pub send_window: usize,
    /// Whether scattered small sends are gathered, so that they share a chunk. Sends of up to 16
    /// KiB are gathered. In memory of a GPU the limit is a twelfth of a chunk, and the kernel
    /// backend is needed. Gathering takes memory of the session for up to `send_window` chunks a
    /// channel, as `staging_bytes` allows. Otherwise each send goes by itself.
    pub gather: bool,
    /// Largest number of bytes in which scattered small sends are gathered, of all channels and
    /// both kinds of memory together; 0 for none. The memory is allocated as channels first need
    /// it, kept for later channels, and freed with the session. Channels for which no memory is
    /// left send each message by itself.
    pub staging_bytes: u64,
    /// Longest eager message, which travels on the control link instead of a channel, at most 65536
    /// and a chunk; 0 for none. Two ends agree on the smaller number. An eager message needs no
    /// request of the plugin, and passes larger messages in flight. An unexpected message is
    /// sent into a buffer at its receiver, and its send is done at once: [what that
    /// means](crate::Transfer#small-messages). Batches of many small messages share chunks instead.
    /// Messages from memory of a GPU, or into it, are never eager. Reads and writes of a peer's
    /// memory travel on the link as `link_bytes` allows; with 0 none does.
    pub eager_bytes: u32,
    /// Longest read or write of a peer's memory that travels on the control link, in parts. Also
    /// the largest number of bytes of several that do at a time. A read or write as short as
    /// `eager_bytes` always travels on the link. Two ends agree on the smaller number. On the link
    /// a read or write takes no request of the plugin, and a write waits for no answer of the peer.
    /// Others travel on the channels, which are faster where there are processors for them. Memory
    /// of a GPU always takes the channels.
    pub link_bytes: LinkBytes,
    /// Largest number of bytes of unexpected messages that each peer may send, at most 1 GiB.
    /// Each message counts 160 bytes beside its own. Two ends use the smaller number. These bytes
    /// count towards `kept_for_peers_bytes`, too. Memory is allocated for waiting messages, and
    /// freed with them. A message that finds no room waits at its sender. 0 for none; a session
    /// with a GPU takes none.
    pub eager_buffer_bytes: u32,
    /// Room for notifications of each peer that the program has not taken, 128 KiB to 1 GiB. Each
    /// notification counts 64 bytes beside its own. Two ends use the smaller number. The room
    /// counts towards `kept_for_peers_bytes`, too. A peer that finds no room waits. The same number
    /// of bytes may wait here for each peer, for room or for the peer to be reached. Memory is
    /// allocated for waiting notifications, and freed with them.
    pub notification_bytes: u32,
    /// Largest number of bytes that this session keeps for all peers together, at most 1 TiB,
    /// beside each peer's own share. They are announced receives without a send, lists of ranges,
    /// unexpected messages, and notifications that the program has not taken, also of peers that
    /// have ended. Whatever finds no room waits at its sender, except lists, which are refused. One
    /// peer may have most of what no other needs. Each peer's own share is 144 KiB, whatever others
    /// hold, so that all make progress. The share is for 256 receives, 16 KiB of lists, 8 KiB of
    /// unexpected messages, and 72 KiB of notifications. Each device of a session of all devices
    /// has the same limit.
    pub kept_for_peers_bytes: u64,
    /// Whether credit limits the bytes that peers send to the room in the bounce buffer. Without
    /// credit, parts of chunks may fill the buffer of a plugin that takes pages packet by packet,
    /// and then nothing moves.
    pub bounce_credit: BounceCreditChoice,
    /// Whether what crosses the network is encrypted, on the control link and on the channels:
    /// names, tags, keys and all payload. With [`Encryption::Prefer`] it is with every peer that
    /// has not switched it off. With [`Encryption::Require`] a peer that has switched it off is
    /// refused. Both ends learn the other's setting from connection info and from the proof of its
    /// secret, so an attacker on the way cannot switch it off. If one changes, omits, repeats or
    /// inserts bytes, the peer ends with
    /// [`Departure::LinkTampered`](crate::Departure::LinkTampered).
    pub encryption: Encryption,
    /// File with the certificate of this session in PEM, followed by those between it and the
    /// authority. With certificates, which all peers must have, an encrypted link is made only
    /// between ends whose certificates an authority of the other end has issued, for their names: a
    /// connecting session's own `name`, and the name under which it has loaded the connection info
    /// of the listening one, are among the DNS names or addresses of the certificate (subject
    /// alternative names). The three files are named together, and with encryption. They are looked
    /// at whenever a link is made: changed ones serve from then on, without a restart.
    pub tls_cert: Option<PathBuf>,
    /// File with the private key of `tls_cert`, in PEM.
    pub tls_key: Option<PathBuf>,
    /// File with the certificates of the authorities that may have issued those of peers, in PEM.
    pub tls_ca: Option<PathBuf>,
    /// Whether every peer that comes in and has proven itself is accepted at once. Its name is the
    /// one that it gives itself, or a made-up one, as with
    /// [`accept_any`](crate::Session::accept_any). For sessions that serve memory to every peer
    /// that has a key.
    pub accept_all: bool,
    /// Address of the control listener. With port 0 the system chooses a port.
    pub listen: SocketAddr,
    /// Addresses to put into the connection info. If `listen` is the unspecified address, the
    /// session listens at these addresses only. (If one of them is not this host's, it listens at
    /// every address.) Empty: every address of this host that `listen` covers.
    pub advertise: Vec<IpAddr>,
    /// Time that `accept` and `connect` wait.
    pub connect_timeout: Duration,
    /// Time that `disconnect`, `close` and dropping wait for the peer's goodbye.
    pub close_timeout: Duration,
    /// Time for which a peer may be silent before it counts as gone; `None`: for ever. Any peer is
    /// silent when its host acknowledges nothing. A peer with a progress thread is also silent when
    /// it answers no ping while an operation is posted with it, while a thread waits for
    /// notifications, or while it is being connected or closed. A peer also ends when its data path
    /// is dead: a sent chunk has not arrived for that time, or the software plugin finds that
    /// nothing is acknowledged.
    pub peer_timeout: Option<Duration>,
    /// Time for which nothing may move on a channel, with the peer alive, before the log and the
    /// statistics say so; `None`: for ever.
    pub stall_after: Option<Duration>,
    /// Whether a thread of the session makes progress while no call of the program does. Without
    /// it, bytes move and peers are answered only inside calls of this library. A program that
    /// polls, or waits in this library, needs no thread: its calls go first.
    pub progress_thread: bool,
    /// Whether a plugin file is only loaded after the checks of [`tcpx_diagnosis::preflight`].
    /// Otherwise the hardware plugin is loaded even where it would end the process, crash or hang.
    pub preflight: bool,
    /// Whether SIGPIPE keeps its default action, which ends the process. The hardware plugin raises
    /// it when a peer ends in mid-transfer. So a session over that plugin ignores the signal,
    /// unless there is a handler or it is ignored already. This holds for the whole process and for
    /// the programs that it starts. (Rust programs ignore the signal from their start.)
    pub keep_sigpipe: bool,
    /// Longest time for which a waiting thread polls before it sleeps, and yields to other threads
    /// in between. A thread polls only where recent waits have shown that polling pays. It does not
    /// pay where the other end shares its core, or is slow to answer. Zero: never.
    pub spin: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            plugin: PluginChoice::Auto,
            gpu: None,
            all_devices: false,
            emulated_gpus: 0,
            nics: Vec::new(),
            name: String::new(),
            channels: None,
            connect_channels: false,
            chunk_bytes: None,
            unpack: Choice::Auto,
            copy_threads: CopyThreads::Auto,
            recv_window: MAX_REQUESTS,
            send_window: 12,
            gather: true,
            staging_bytes: DEFAULT_STAGING_BYTES,
            eager_bytes: DEFAULT_EAGER_BYTES,
            link_bytes: LinkBytes::default(),
            eager_buffer_bytes: DEFAULT_EAGER_BUFFER_BYTES,
            notification_bytes: DEFAULT_NOTIFICATION_BYTES,
            kept_for_peers_bytes: DEFAULT_KEPT_FOR_PEERS_BYTES,
            bounce_credit: BounceCreditChoice::Auto,
            encryption: Encryption::Off,
            tls_cert: None,
            tls_key: None,
            tls_ca: None,
            accept_all: false,
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            advertise: Vec::new(),
            connect_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            peer_timeout: Some(Duration::from_secs(10)),
            stall_after: Some(Duration::from_secs(10)),
            progress_thread: true,
            preflight: true,
            keep_sigpipe: false,
            spin: Duration::from_micros(200),
        }
    }
}

impl SessionOptions {
    /// Returns the defaults, overruled by the variables of [the table](SessionOptions). Of two
    /// variables, the first that is set counts.
    ///
    /// # Errors
    /// [`Error::Setting`] with the variable whose value cannot be read.
    pub fn from_env() -> Result<Self> {
        Self::default().with_env()
    }

    /// Returns these options, overruled by the environment in the same way: for a program with
    /// defaults of its own.
    ///
    /// # Errors
    /// The same as those of [`from_env`](Self::from_env).
    pub fn with_env(self) -> Result<Self> {
        if std::env::var_os("TCPX_AUTHENTICATE_LINK").is_some_and(|text| text == "1") {
            tracing::warn!(
                "TCPX_AUTHENTICATE_LINK has no effect any more: TCPX_ENCRYPTION=prefer, or require, \
                 encrypts what it authenticated, and all payload"
            );
        }
        self.with_lookup(std::env::var_os)
    }

    /// Checks every field that does not depend on the plugin.
    pub(crate) fn check(&self) -> Result<()> {
        range("channels", self.channels.unwrap_or(0).into(), 0, MAX_CHANNELS.into())?;
        if let Some(bytes) = self.chunk_bytes {
            range("chunk_bytes", bytes.into(), MIN_CHUNK_BYTES.into(), MAX_CHUNK_BYTES.into())?;
        }
        if let CopyThreads::Count(count) = self.copy_threads {
            range("copy_threads", count.into(), 0, MAX_COPY_THREADS.into())?;
        }
        range("recv_window", self.recv_window as u64, 1, MAX_REQUESTS as u64)?;
        range("send_window", self.send_window as u64, 1, MAX_REQUESTS as u64)?;
        range("eager_bytes", self.eager_bytes.into(), 0, MAX_EAGER_BYTES.into())?;
        let most = MAX_EAGER_BUFFER_BYTES.into();
        range("eager_buffer_bytes", self.eager_buffer_bytes.into(), 0, most)?;
        let (least, most) = (LEAST_NOTIFICATION_BYTES.into(), MAX_NOTIFICATION_BUFFER_BYTES.into());
        range("notification_bytes", self.notification_bytes.into(), least, most)?;
        range("kept_for_peers_bytes", self.kept_for_peers_bytes, 0, MAX_KEPT_FOR_PEERS_BYTES)?;
        range("emulated_gpus", self.emulated_gpus.into(), 0, MAX_EMULATED_GPUS)?;
        if let Some(timeout) = self.peer_timeout {
            let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            range("peer_timeout in milliseconds", milliseconds, 100, MAX_PEER_TIMEOUT_MS)?;
        }
        if let Some(time) = self.stall_after {
            range("stall_after in ms", time.as_millis() as u64, 1, 86_400_000)?;
        }
        check_name("name", &self.name)
    }

    /// Returns the choice of a backend for memory of this kind.
    pub(crate) fn unpack_of(&self, memory: MemoryKind) -> Choice {
        match memory {
            MemoryKind::Host if self.all_devices => Choice::Auto,
            _ => self.unpack,
        }
    }

    /// Refuses a session without a GPU on a plugin that needs one. The buffers of such a plugin lie
    /// in GPU memory, and a CPU that reads them ends the process.
    pub(crate) fn check_gpu(&self, plugin_is_hardware: bool) -> Result<()> {
        match self.gpu {
            None if plugin_is_hardware => {
                Err(Error::setting("gpu", "none", SettingProblem::GpuNeeded))
            }
            _ => Ok(()),
        }
    }
}

/// Checks a name of a session or peer, which goes into logs, errors and hellos.
pub(crate) fn check_name(setting: &'static str, name: &str) -> Result<()> {
    if name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let value: String = name.chars().take(16).chain("…".chars()).collect();
    let problem = SettingProblem::TooLong { bytes: name.len(), limit: MAX_NAME_BYTES };
    Err(Error::setting(setting, value, problem))
}

fn range(name: &'static str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(name, value.to_string(), SettingProblem::OutOfRange { low, high }))
}

#[cfg(test)]
mod tests;
