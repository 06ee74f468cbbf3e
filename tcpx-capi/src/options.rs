#![allow(unsafe_code)]
//! Options of a session, as C programs fill them in.

use std::ffi::c_char;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use tcpx_core::SessionOptions;

use crate::boundary;
use crate::extensible::{self, Extensible};
use crate::failure::Failure;
use crate::input::{self, TCPX_MAX_NAME_BYTES};
use crate::status::tcpx_status::{self, TCPX_ERR_SETTING};

/// Value of `gpu`: no GPU. Ordinary memory stands in for device memory. The hardware plugin refuses
/// such a session with `TCPX_ERR_SETTING`, because it hands out GPU memory.
pub const TCPX_GPU_NONE: i32 = -1;

/// Most bytes of the text of an option.
const MAX_TEXT_BYTES: usize = 4096;

/// Options of a session. Fill them with `tcpx_session_options_init`, then change those that should
/// differ.
///
/// Numbers are taken as they stand. A text that is NULL stands for the value of the environment, or
/// else for the default. Texts are read during `tcpx_session_create` and not kept. The comment of
/// an option ends with its environment variable. New members are added at the end; `size` says
/// which members the program knows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tcpx_session_options {
    /// sizeof(tcpx_session_options). `tcpx_session_options_init` sets it.
    pub size: usize,
    /// Plugin: "auto", "soft", "devmem", or the path of a plugin file. "auto" takes the hardware
    /// plugin if it is installed, else the software plugin. TCPX_PLUGIN.
    pub plugin: *const c_char,
    /// Backend that copies fragments to their destination: "auto", "host", "d2d" or "kernel".
    /// TCPX_UNPACK.
    pub unpack: *const c_char,
    /// The session's own name, at most 64 bytes. A peer's `tcpx_session_accept` takes the session
    /// under this name only. If it is NULL or empty, any accept takes it.
    pub name: *const c_char,
    /// Names of NICs, separated by commas. Channels go round robin over them. If it is NULL or
    /// empty, NICs are chosen for each peer. TCPX_NIC.
    pub nics: *const c_char,
    /// Address and port of the control listener, such as "0.0.0.0:0". Port 0 lets the system
    /// choose. TCPX_LISTEN.
    pub listen: *const c_char,
    /// IP addresses to put into the connection info, separated by commas. If it is NULL or empty,
    /// every address of this host that `listen` covers is put in.
    pub advertise: *const c_char,
    /// CUDA ordinal of the GPU whose memory is moved, or TCPX_GPU_NONE, the default, which the
    /// hardware plugin refuses. TCPX_GPU.
    pub gpu: i32,
    /// Channels to each peer, 1 to 64, or 0, the default, with which each end chooses. Over the
    /// software plugin an end chooses 2 to 8 by its processors, and 2 where the process has many
    /// peers. Over the hardware plugin it chooses 2. It chooses at least one channel for each of
    /// `nics`. Two ends agree on the smaller number. Over the software plugin, where messages
    /// travel on the control link, channels with 0 are opened on first use, unless
    /// TCPX_CONNECT_CHANNELS is 1. TCPX_CHANNELS.
    pub channels: u32,
    /// Bytes of a chunk, 4096 to 4194304. A value above NCCL_DYNAMIC_CHUNK_SIZE is refused. With
    /// the hardware plugin so is a value that the MTU of a NIC would cut into 2048 fragments. With
    /// 0 a chunk has 524288 bytes, or less where these limits ask for less. Two ends agree on the
    /// smaller number. TCPX_CHUNK_BYTES.
    pub chunk_bytes: u32,
    /// Receives in flight on a channel, 1 to 16. TCPX_RECV_WINDOW.
    pub recv_window: u32,
    /// Sends in flight on a channel, 1 to 16. TCPX_SEND_WINDOW.
    pub send_window: u32,
    /// Time for which `tcpx_session_accept` and `tcpx_session_connect` wait, in milliseconds.
    /// TCPX_CONNECT_TIMEOUT_MS.
    pub connect_timeout_ms: u32,
    /// Time for which `tcpx_session_disconnect` and `tcpx_session_destroy` wait for the peer's
    /// goodbye, in milliseconds. TCPX_CLOSE_TIMEOUT_MS.
    pub close_timeout_ms: u32,
    /// Longest time, in microseconds, for which a waiting thread spins before it sleeps, where
    /// recent waits have shown that spinning pays; 0: never. TCPX_SPIN_US.
    pub spin_us: u32,
    /// With 1, the default, a thread of the session makes progress. With 0, progress is made only
    /// inside calls of this library. Without such calls peers cannot connect, nothing of theirs is
    /// received or served, and withdrawals at either end do not finish. TCPX_PROGRESS_THREAD.
    pub progress_thread: i32,
    /// Time for which a peer may be silent before it counts as gone, in milliseconds: 100 to
    /// 86400000, or 0 for no limit. A peer with a progress thread is silent when it answers no ping
    /// while something is posted with it. Any peer is silent when its host acknowledges nothing. A
    /// data path fails after that time when nothing is acknowledged on it, or when a chunk that was
    /// sent does not arrive; this ends the peer. TCPX_PEER_TIMEOUT_MS.
    pub peer_timeout_ms: u32,
    /// Most bytes of memory in which scattered small sends are gathered, of all channels together,
    /// in host memory and GPU memory. The memory is allocated as channels first need it and freed
    /// with the session. With 0, or where nothing is left for a channel, each send travels by
    /// itself. TCPX_STAGING_BYTES.
    pub staging_bytes: u64,
    /// With 1, a plugin file is loaded only after the checks of `tcpx doctor`. With 0 it is loaded
    /// unchecked, and the hardware plugin may then end, crash or hang the process. TCPX_PREFLIGHT.
    pub preflight: i32,
    /// With 0, a session over the hardware plugin ignores SIGPIPE in the whole process if its
    /// disposition was SIG_DFL: the plugin raises the signal when a peer ends in mid-transfer. A
    /// handler, and SIG_IGN, stay. With 1, SIG_DFL stays too, and a peer that ends in mid-transfer
    /// ends the process. Programs that the process starts inherit an ignored signal.
    /// TCPX_KEEP_SIGPIPE.
    pub keep_sigpipe: i32,
    /// Longest message that travels on the control link instead of a channel, 0 to 65536 bytes; 0
    /// for none. Two ends agree on the smaller number. A send of such a message for which no
    /// receive is announced goes ahead and is complete at once. Its completion says nothing of the
    /// receiver. TCPX_LINK_BYTES bounds the reads and writes of a peer's memory that travel on the
    /// link; with `eager_bytes` 0 none does. TCPX_EAGER_BYTES.
    pub eager_bytes: u32,
    /// Most bytes of unexpected messages, which each peer may send before their receives are
    /// posted, up to 1 GiB. TCPX_EAGER_BUFFER_BYTES.
    pub eager_buffer_bytes: u32,
    /// Most bytes of notifications of each peer that wait for this program, and of notifications
    /// that wait here for each peer. Each notification counts with 64 bytes more. 131072 to
    /// 1073741824. TCPX_NOTIFICATION_BYTES.
    pub notification_bytes: u32,
    /// With 1, a peer that comes in and has proven itself is accepted at once, under its own name
    /// or a generated one. With 0, the default, a peer waits for `tcpx_session_accept` or
    /// `tcpx_session_accept_any` to name it. TCPX_ACCEPT_ALL.
    pub accept_all: i32,
    /// With 1, the session has the host and all GPUs, with one connection info, one name, and one
    /// set of peers. Memory is registered with its device, peers that have proven themselves are
    /// accepted, and threads make progress. `gpu` then says only which GPU sends host memory over
    /// the hardware plugin. 0 is the default.
    pub group: i32,
    /// 0. Use `encryption`, which has taken its place; 1 is refused.
    pub authenticate_link: i32,
    /// Most bytes that peers together may make the session keep for them, up to 1 TiB, beside 144
    /// KiB for each. These are announced receives, lists of ranges, unexpected messages, and
    /// notifications that the program has not taken, also of peers that have ended. Data that finds
    /// no room waits at its sender. TCPX_KEPT_FOR_PEERS_BYTES.
    pub kept_for_peers_bytes: u64,
    /// Whether what crosses the network is encrypted, on the control link and on the channels:
    /// "off", the default; "prefer", with peers that do not have it off; or "require", with every
    /// peer, where one that has it off is refused. An attacker that changes, drops, repeats or
    /// inserts bytes on the way ends the peer (TCPX-738). TCPX_ENCRYPTION.
    pub encryption: *const c_char,
    /// File with the certificate of this session in PEM, followed by those between it and the
    /// authority. With certificates, which all peers must have, an encrypted link is made only with
    /// peers whose certificate an authority in `tls_ca` has issued for their name. `tls_cert`,
    /// `tls_key` and `tls_ca` are named together, and with encryption. The files may be replaced at
    /// any time. TCPX_TLS_CERT.
    pub tls_cert: *const c_char,
    /// File with the private key of `tls_cert` in PEM. TCPX_TLS_KEY.
    pub tls_key: *const c_char,
    /// File with the certificates of the authorities of peers in PEM. TCPX_TLS_CA.
    pub tls_ca: *const c_char,
}

const _: () = assert!(size_of::<tcpx_session_options>() == 176);

// SAFETY: a size, six pointers, ten 32-bit numbers, one of 64 bits, eight more of 32, one of 64 and
// four pointers are 176 bytes without padding, as asserted; pointers may have any bits.
unsafe impl Extensible for tcpx_session_options {
    const NAME: &'static str = "tcpx_session_options";
    const FIRST_BYTES: usize = 104;
}

/// Fills options. Numbers get the value of the environment, or else the default; texts get NULL.
///
/// `size` is sizeof(tcpx_session_options) as the program was compiled.
///
/// Errors: `TCPX_ERR_NULL`; `TCPX_ERR_ARGUMENT` for a size that no version of the struct has;
/// `TCPX_ERR_SETTING` when a variable of the environment cannot be read: the text names it. Any
/// thread.
///
/// # Safety
/// `options` is NULL or may be written for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_options_init(
    options: *mut tcpx_session_options,
    size: usize,
) -> tcpx_status {
    boundary::call(|| {
        let defaults = tcpx_session_options::from_core(&defaults()?);
        // SAFETY: passed on from the caller.
        unsafe { extensible::write(options, size, defaults) }
    })
}

/// Returns the values of the environment, or else the defaults.
fn defaults() -> Result<SessionOptions, Failure> {
    Ok(SessionOptions::from_env()?)
}

/// Turns a caller's options into those of tcpx-core. NULL stands for the environment's.
///
/// # Safety
/// `options` is NULL or points to a struct of the size it names, whose texts are NULL or end with
/// NUL.
pub(crate) unsafe fn to_core(
    options: *const tcpx_session_options,
) -> Result<SessionOptions, Failure> {
    let mut core = defaults()?;
    if options.is_null() {
        return Ok(core);
    }
    // SAFETY: passed on from the caller.
    let options = unsafe { extensible::read(options, tcpx_session_options::from_core(&core)) }?;
    options.numbers(&mut core)?;
    // SAFETY: passed on from the caller.
    unsafe { options.texts(&mut core) }?;
    Ok(core.all_devices(input::flag("group", options.group)?))
}

impl tcpx_session_options {
    fn from_core(core: &SessionOptions) -> Self {
        let text = std::ptr::null();
        let clamp = |time: u128| u32::try_from(time).unwrap_or(u32::MAX);
        Self {
            size: size_of::<Self>(),
            plugin: text,
            unpack: text,
            name: text,
            nics: text,
            listen: text,
            advertise: text,
            gpu: core.gpu.and_then(|gpu| i32::try_from(gpu).ok()).unwrap_or(TCPX_GPU_NONE),
            channels: core.channels.unwrap_or(0).into(),
            chunk_bytes: core.chunk_bytes.unwrap_or(0),
            recv_window: u32::try_from(core.recv_window).unwrap_or(u32::MAX),
            send_window: u32::try_from(core.send_window).unwrap_or(u32::MAX),
            connect_timeout_ms: clamp(core.connect_timeout.as_millis()),
            close_timeout_ms: clamp(core.close_timeout.as_millis()),
            spin_us: clamp(core.spin.as_micros()),
            progress_thread: core.progress_thread.into(),
            peer_timeout_ms: core.peer_timeout.map_or(0, |timeout| clamp(timeout.as_millis())),
            staging_bytes: core.staging_bytes,
            preflight: core.preflight.into(),
            keep_sigpipe: core.keep_sigpipe.into(),
            eager_bytes: core.eager_bytes,
            eager_buffer_bytes: core.eager_buffer_bytes,
            notification_bytes: core.notification_bytes,
            accept_all: core.accept_all.into(),
            group: 0,
            authenticate_link: 0,
            kept_for_peers_bytes: core.kept_for_peers_bytes,
            encryption: text,
            tls_cert: text,
            tls_key: text,
            tls_ca: text,
        }
    }

    /// Takes the numbers over. tcpx-core checks the ranges; only values that its types cannot hold
    /// are refused here.
    fn numbers(&self, core: &mut SessionOptions) -> Result<(), Failure> {
        core.gpu = match self.gpu {
            TCPX_GPU_NONE => None,
            gpu => Some(u32::try_from(gpu).map_err(|_| refuse("gpu", gpu, "-1 or an ordinal"))?),
        };
        let channels = u16::try_from(self.channels)
            .map_err(|_| refuse("channels", self.channels, "must be 0 to 64"))?;
        core.channels = (channels != 0).then_some(channels);
        core.chunk_bytes = (self.chunk_bytes != 0).then_some(self.chunk_bytes);
        core.recv_window = self.recv_window as usize;
        core.send_window = self.send_window as usize;
        core.connect_timeout = Duration::from_millis(self.connect_timeout_ms.into());
        core.close_timeout = Duration::from_millis(self.close_timeout_ms.into());
        core.spin = Duration::from_micros(self.spin_us.into());
        core.progress_thread = input::flag("progress_thread", self.progress_thread)?;
        core.peer_timeout =
            (self.peer_timeout_ms != 0).then(|| Duration::from_millis(self.peer_timeout_ms.into()));
        core.staging_bytes = self.staging_bytes;
        core.preflight = input::flag("preflight", self.preflight)?;
        core.keep_sigpipe = input::flag("keep_sigpipe", self.keep_sigpipe)?;
        core.eager_bytes = self.eager_bytes;
        core.eager_buffer_bytes = self.eager_buffer_bytes;
        core.notification_bytes = self.notification_bytes;
        core.accept_all = input::flag("accept_all", self.accept_all)?;
        if input::flag("authenticate_link", self.authenticate_link)? {
            let instead = "encryption has taken its place: \"prefer\" or \"require\"";
            return Err(refuse("authenticate_link", 1, instead));
        }
        core.kept_for_peers_bytes = self.kept_for_peers_bytes;
        Ok(())
    }

    /// # Safety
    /// Every text is NULL or ends with NUL.
    unsafe fn texts(&self, core: &mut SessionOptions) -> Result<(), Failure> {
        // SAFETY: passed on from the caller.
        let read = |name, text, max_bytes| unsafe { input::optional_text(name, text, max_bytes) };
        if let Some(plugin) = read("plugin", self.plugin, MAX_TEXT_BYTES)? {
            core.plugin = parse("plugin", plugin)?;
        }
        if let Some(unpack) = read("unpack", self.unpack, MAX_TEXT_BYTES)? {
            core.unpack = parse("unpack", unpack)?;
        }
        if let Some(name) = read("name", self.name, TCPX_MAX_NAME_BYTES)? {
            core.name = name.to_owned();
        }
        if let Some(nics) = read("nics", self.nics, MAX_TEXT_BYTES)? {
            core.nics = items(nics).map(str::to_owned).collect();
        }
        if let Some(listen) = read("listen", self.listen, MAX_TEXT_BYTES)? {
            core.listen = parse("listen", listen)?;
        }
        if let Some(encryption) = read("encryption", self.encryption, MAX_TEXT_BYTES)? {
            core.encryption = parse("encryption", encryption)?;
        }
        for (name, file, path) in [
            ("tls_cert", self.tls_cert, &mut core.tls_cert),
            ("tls_key", self.tls_key, &mut core.tls_key),
            ("tls_ca", self.tls_ca, &mut core.tls_ca),
        ] {
            if let Some(file) = read(name, file, MAX_TEXT_BYTES)? {
                *path = Some(file.into());
            }
        }
        if let Some(addresses) = read("advertise", self.advertise, MAX_TEXT_BYTES)? {
            let addresses = items(addresses).map(|address| parse("advertise", address));
            core.advertise = addresses.collect::<Result<_, _>>()?;
        }
        Ok(())
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn parse<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error| refuse(name, text, error))
}

fn refuse(name: &str, value: impl Display, reason: impl Display) -> Failure {
    Failure::new(TCPX_ERR_SETTING, format!("{name} = {value}: {reason}"))
}

#[cfg(test)]
mod tests;
