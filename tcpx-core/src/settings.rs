//! Settings of a session: builder over environment over default.

pub(crate) mod choices;
mod setters;
mod variables;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tcpx_protocol::types::{
    LEAST_NOTIFICATION_BYTES, MAX_CHANNELS, MAX_CHUNK_BYTES, MAX_EAGER_BYTES, MIN_CHUNK_BYTES,
};
use tcpx_sys::MAX_REQUESTS;
use tcpx_unpack::Choice;

use crate::error::{Error, Result, SettingProblem};
use crate::types::{MAX_COPY_THREADS, MAX_NAME_BYTES};

pub use self::choices::{
    BounceCreditChoice, CopyThreads, HARDWARE_PLUGIN_PATH, LinkBytes, PluginChoice,
};

/// The full slots of a few dozen channels to a GPU.
const DEFAULT_STAGING_BYTES: u64 = 256 << 20;
/// Longer messages cost less on a channel, where they are received straight into place.
const DEFAULT_EAGER_BYTES: u32 = 16 << 10;
const DEFAULT_EAGER_BUFFER_BYTES: u32 = 256 << 10;
const MAX_EAGER_BUFFER_BYTES: u32 = 1 << 30;
const DEFAULT_KEPT_FOR_PEERS_BYTES: u64 = 256 << 20;
const MAX_KEPT_FOR_PEERS_BYTES: u64 = 1 << 40;
const DEFAULT_NOTIFICATION_BYTES: u32 = 1 << 20;
const MAX_NOTIFICATION_BUFFER_BYTES: u32 = 1 << 30;
/// As many as a host may have.
const MAX_EMULATED_GPUS: u64 = 64;
/// A day. Longer silence is what `None` is for.
const MAX_PEER_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// How one session is set up. Start from [`SessionOptions::default`] or
/// [`SessionOptions::from_env`], and change fields, or call the setters that have their names:
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
/// | `authenticate_link` | `TCPX_AUTHENTICATE_LINK` | 0 |
/// | `accept_all` | `TCPX_ACCEPT_ALL` | 0 |
/// | `listen` | `TCPX_LISTEN` | 0.0.0.0:0 |
/// | `connect_timeout` | `TCPX_CONNECT_TIMEOUT_MS` | 30 s |
/// | `close_timeout` | `TCPX_CLOSE_TIMEOUT_MS` | 5 s |
/// | `peer_timeout` | `TCPX_PEER_TIMEOUT_MS`, 0 for none | 10 s |
/// | `stall_after` | `TCPX_STALL_AFTER_MS`, 0 for none | 10 s |
/// | `progress_thread` | `TCPX_PROGRESS_THREAD` | 0 |
/// | `spin` | `TCPX_SPIN_US` | 200 µs |
/// | `preflight` | `TCPX_PREFLIGHT` | 1 |
/// | `keep_sigpipe` | `TCPX_KEEP_SIGPIPE` | 0 |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Which plugin moves the bytes.
    pub plugin: PluginChoice,
    /// CUDA ordinal of the GPU whose memory is moved. `None`: host memory and emulated device
    /// memory, which a hardware plugin refuses. It sends from host memory in a session with a GPU.
    pub gpu: Option<u32>,
    /// Whether the session is of the host and of all GPUs: one name, one connection info and one
    /// set of peers for all of them. Memory is registered with its [device](crate::Device), and ids
    /// and keys say which that is from then on. Two devices, one here and one at a peer, are
    /// connected with the first operation between them. Each device that is used has a lock and a
    /// progress thread of its own, whatever `progress_thread` says, and peers that have proven
    /// themselves are accepted, whatever `accept_all` says. Sends and receives by tag are between
    /// hosts. Over a hardware plugin `gpu` says with which GPU memory of the host is sent, or else
    /// the first does it.
    pub all_devices: bool,
    /// How many GPUs ordinary memory stands in for in a session of all devices, for hosts that have
    /// none; 0: the GPUs are real. Other sessions take no notice of it.
    pub emulated_gpus: u32,
    /// NICs by name; channels go round robin over them. Empty: chosen for each peer.
    pub nics: Vec<String>,
    /// Name under which peers' `accept` finds this session; empty: any `accept` takes it.
    pub name: String,
    /// Channels to each peer, 1 to [`MAX_CHANNELS`]; two ends agree on the smaller number. With 0
    /// or `None` it is chosen. Over the software plugin it is 2 on fewer than 8 processors, else
    /// one for two processors and at most 8, and again 2 where all channels of the process would
    /// be more than four for each processor. Over the hardware plugin it is 2. Each NIC of `nics`
    /// gets one at least.
    pub channels: Option<u16>,
    /// Whether the channels are made, and proven, when a peer is connected. Without it they are
    /// made when something first needs them, within `connect_timeout`, where messages travel on the
    /// control link over the software plugin and `channels` asks for no number: a peer whose
    /// messages, reads, writes and notifications all travel on the link takes one socket and no
    /// more. It is enough that one end asks for it.
    pub connect_channels: bool,
    /// Bytes of a chunk, 4096 to [`MAX_CHUNK_BYTES`]. A plugin takes no more than
    /// NCCL_DYNAMIC_CHUNK_SIZE, and the hardware plugin no more than come in 2047 fragments, which
    /// the MTU of the NICs decides. A number above either is an error; `None` is
    /// [`DEFAULT_CHUNK_BYTES`](crate::DEFAULT_CHUNK_BYTES), or less where they ask for less. Two
    /// ends agree on the smaller.
    pub chunk_bytes: Option<u32>,
    /// How fragments are copied to their destination.
    pub unpack: Choice,
    /// Threads that help to copy fragments to ordinary memory. They begin when there is much to
    /// copy at once, and end with the session. Memory of a GPU needs none.
    pub copy_threads: CopyThreads,
    /// Receives in flight on a channel, 1 to 16.
    pub recv_window: usize,
    /// Sends in flight on a channel, 1 to 16.
    pub send_window: usize,
    /// Whether scattered small sends are copied together, so that they share a chunk: sends of up
    /// to 16 KiB, or in memory of a GPU, which takes the kernel backend, of a twelfth of a chunk.
    /// It takes memory of the session for up to `send_window` chunks a channel, as `staging_bytes`
    /// allows. Without it each is sent by itself.
    pub gather: bool,
    /// Most bytes in which scattered small sends are gathered, of all channels and both kinds of
    /// memory together; 0 for none. It is allocated as channels first need it, kept for channels to
    /// come, and freed with the session. Channels for which nothing is left send each by itself.
    pub staging_bytes: u64,
    /// Longest message that travels on the control link instead of a channel, at most 65536 and a
    /// chunk; 0 for none. Two ends agree on the smaller. Such a message needs no request of the
    /// plugin, and passes larger ones that are under way. If no receive is announced for it, it
    /// goes ahead into a buffer at its receiver, and its send is done at once: [what that
    /// means](crate::Transfer#small-messages). Batches of many small messages share chunks instead.
    /// Messages from memory of a GPU, or into it, never travel so. Reads and writes of a peer's
    /// memory do, as `link_bytes` allows; with 0 none does.
    pub eager_bytes: u32,
    /// Longest read or write of a peer's memory that travels on the control link, in parts, and
    /// most bytes of several that do at a time; one as short as `eager_bytes` always does. Two ends
    /// agree on the smaller. Such a one takes no request of the plugin, and a write waits for no
    /// word of the peer. Others travel on the channels, which move more at once where there are
    /// processors for them, as does what memory of a GPU takes part in.
    pub link_bytes: LinkBytes,
    /// Most bytes that each peer may send ahead of receives that are not posted, at most 1 GiB; 160
    /// of them for each message beside its own. Two ends use the smaller. They are of
    /// `kept_for_peers_bytes`, too. Memory is allocated for what waits, and freed with
    /// it. What finds no room waits at its sender. 0 for none; a session with a GPU takes none.
    pub eager_buffer_bytes: u32,
    /// Room for notifications of each peer that the program has not taken, 128 KiB to 1 GiB; 64
    /// bytes for each beside its own. Two ends use the smaller. It is of `kept_for_peers_bytes`,
    /// too. A peer that finds no room waits. As much more waits here for each peer, for room or for
    /// the peer to be reached. Memory is allocated for what waits, and freed with it.
    pub notification_bytes: u32,
    /// Most bytes that peers together may make this session keep for them, at most 1 TiB, beside
    /// what is each one's own: receives that they announce and that have no send, lists of ranges,
    /// messages that they send ahead of receives, and notifications that the program has not taken,
    /// also of peers that have ended. What finds no room waits at its sender, but lists, which are
    /// refused. One peer may have most of what no other needs. 144 KiB are each one's own whatever
    /// others hold, so that all go on: 256 receives, 16 KiB of lists, 8 KiB ahead, and 72 KiB of
    /// notifications. Each device of a session of all devices has as much.
    pub kept_for_peers_bytes: u64,
    /// Whether peers may only send what the bounce buffer has room for. Without it, parts of chunks
    /// may fill the buffer of a plugin that takes pages packet by packet, and then nothing moves.
    pub bounce_credit: BounceCreditChoice,
    /// Whether everything on the control link after the two hellos carries a MAC, with a key that
    /// only the two ends have and a number that is never used again. It does as soon as one end
    /// wants it. Who sits on the way then cannot change, leave out, repeat or put in a frame, a
    /// small message, or bytes of reads and writes that travel on the link: the peer ends with
    /// [`Departure::LinkTampered`](crate::Departure::LinkTampered). Nothing is encrypted, and the
    /// bytes on the channels, which the plugin moves, are neither hidden nor authenticated.
    pub authenticate_link: bool,
    /// Whether whoever comes in and has proven itself is accepted at once, under the name that it
    /// gives itself, or one that is made up, as [`accept_any`](crate::Session::accept_any) does.
    /// For sessions that serve memory to whoever has a key.
    pub accept_all: bool,
    /// Address of the control listener; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Addresses to put into the connection info, and to listen at where `listen` says every one.
    /// (With one among them that is not this host's, every one is listened at.) Empty: every
    /// address of this host that `listen` covers.
    pub advertise: Vec<IpAddr>,
    /// How long `accept` and `connect` wait.
    pub connect_timeout: Duration,
    /// How long `disconnect`, `close` and dropping wait for the peer's goodbye.
    pub close_timeout: Duration,
    /// How long a peer may be silent before it counts as gone; `None`: for ever. A peer that has a
    /// progress thread is silent when it answers no ping while something is posted with it, or is
    /// being connected or closed; any peer, when its host acknowledges nothing. Its data path is
    /// dead, and the peer with it, when a chunk that was sent has not arrived for that time, or
    /// when the software plugin finds that nothing is acknowledged on it.
    pub peer_timeout: Option<Duration>,
    /// How long nothing may move on a channel, with the peer alive, before the log and the
    /// statistics say so; `None`: for ever.
    pub stall_after: Option<Duration>,
    /// Whether a thread of the session drives progress. Without it, progress is made inside calls
    /// of this library.
    pub progress_thread: bool,
    /// Whether a plugin file is only loaded after the checks of [`tcpx_diagnosis::preflight`].
    /// Without them the hardware plugin is loaded where it would end the process, crash or hang.
    pub preflight: bool,
    /// Whether SIGPIPE keeps its default action, which ends the process. The hardware plugin raises
    /// it when a peer ends in mid-transfer. So a session over it has the signal ignored, in the
    /// whole process and in the programs that this starts, unless there is a handler or it is
    /// ignored already. (Rust programs ignore it from their start.)
    pub keep_sigpipe: bool,
    /// The longest time for which a waiting thread looks again and again before it sleeps, yielding
    /// to others in between. It does so only where recent waits have shown that it pays: not where
    /// the other end shares its core, or is slow to answer. Zero: never.
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
            authenticate_link: false,
            accept_all: false,
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            advertise: Vec::new(),
            connect_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            peer_timeout: Some(Duration::from_secs(10)),
            stall_after: Some(Duration::from_secs(10)),
            progress_thread: false,
            preflight: true,
            keep_sigpipe: false,
            spin: Duration::from_micros(200),
        }
    }
}

impl SessionOptions {
    /// The defaults, overruled by the variables of [the table](SessionOptions); of two,
    /// the first that is set counts.
    ///
    /// # Errors
    /// [`Error::Setting`] naming the variable whose value cannot be read.
    pub fn from_env() -> Result<Self> {
        Self::default().with_env()
    }

    /// These options, overruled likewise: for a program with defaults of its own.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn with_env(self) -> Result<Self> {
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

    /// Refuses a session without a GPU on a plugin that needs one. What such a plugin hands out
    /// lies in GPU memory, and a CPU that reads it ends the process.
    pub(crate) fn check_gpu(&self, plugin_is_hardware: bool) -> Result<()> {
        match self.gpu {
            None if plugin_is_hardware => {
                Err(Error::setting("gpu", "none", SettingProblem::GpuNeeded))
            }
            _ => Ok(()),
        }
    }
}

/// Names of sessions and peers go into logs, errors and hellos.
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
