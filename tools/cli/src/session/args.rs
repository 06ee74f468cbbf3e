//! Flags of a session, and the session that both ends open by them.

use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tcpx_core::{DEFAULT_CHUNK_BYTES, Encryption, PluginChoice, SessionOptions, UnpackChoice};

use super::isolation;
use super::memory_choice::{Memory, MemoryChoice};
use super::transport::Transport;
use crate::budget::Budget;
use crate::failure::Failure;
use crate::input::{ByteSize, plugin_name};

/// Longest results of a command, in bytes: the session has room for them among its notifications.
pub(crate) const RESULT_LIMIT: usize = 4 << 20;
/// Shortest timeout that the library takes.
const SHORTEST_PEER_TIMEOUT: Duration = Duration::from_millis(100);

/// Transport of the bytes. The client's values count; a server with flags of its own refuses
/// others.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArgs {
    /// Plugin that moves the bytes. auto: the hardware plugin where it is installed, else soft,
    /// with devmem for memory of GPUs where NICs can; soft: the built-in software plugin over plain
    /// TCP sockets; devmem: the same over the kernel's own device-memory TCP (docs/devmem.md);
    /// PATH: an ncclNet v7 plugin file [env: TCPX_PLUGIN, UCCL_TCPX_PLUGIN_PATH] [default: auto]
    #[arg(long, value_parser = plugin_name, value_name = "auto|soft|devmem|PATH")]
    pub(crate) plugin: Option<PluginChoice>,

    /// CUDA ordinal of the GPU whose memory is moved; the two ends may use different ones
    /// [env: TCPX_GPU] [default: 0 where memory is CUDA memory]
    #[arg(long, value_name = "N")]
    pub(crate) gpu: Option<u32>,

    /// NICs of this end, over which the channels go round robin [env: TCPX_NIC] [default: chosen
    /// for the other end's address]
    #[arg(long, value_name = "NIC,...", value_delimiter = ',')]
    pub(crate) nic: Vec<String>,

    /// Memory that is sent from and received into [default: auto]
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) memory: Option<MemoryChoice>,

    /// How fragments are copied from the bounce buffer to their destination: host, d2d, kernel or
    /// auto [env: TCPX_UNPACK, UCCL_TCPX_UNPACK_IMPL] [default: auto]
    #[arg(long, value_name = "IMPL")]
    pub(crate) unpack: Option<UnpackChoice>,

    /// Bytes of a chunk, 4 KiB to 4 MiB, at most NCCL_DYNAMIC_CHUNK_SIZE and what the MTU allows
    /// [env: TCPX_CHUNK_BYTES, UCCL_TCPX_CHUNK_BYTES] [default: 512KiB, or less where those are]
    #[arg(long, value_name = "BYTES")]
    pub(crate) chunk: Option<ByteSize>,

    /// Channels between the two ends, 1 to 64; 0: chosen by plugin and processors
    /// [env: TCPX_CHANNELS, UCCL_TCPX_NUM_CHANNELS] [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) channels: Option<u16>,

    /// Open a plugin file in a process of its own first: one that exits, crashes or hangs is then
    /// an error of this command and not its end. Nothing to do for the built-in software plugin
    #[arg(long)]
    pub(crate) isolate: bool,

    /// Values that both ends should use.
    #[arg(skip)]
    pair: Option<GpuNicPair>,

    /// Encryption that both ends should use, whatever the environment says.
    #[arg(skip)]
    encryption: Option<Encryption>,
}

/// A GPU and a NIC. Without a GPU, memory is the host's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GpuNicPair {
    pub(crate) gpu: Option<u32>,
    pub(crate) nic: String,
}

/// Session settings of the client that both ends must share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionRequest {
    /// Bytes of a chunk, if the client was given a number.
    pub(crate) chunk_bytes: Option<u32>,
    /// 0: each end chooses, and the smaller number counts.
    pub(crate) channels: u16,
    pub(crate) memory: Memory,
    /// Name of the unpack implementation, if the client was given one.
    pub(crate) unpack: Option<String>,
    /// GPU and NIC that the server should use, if it was given none.
    pub(crate) pair: Option<GpuNicPair>,
    /// Name of the setting that the server should use too, if the client measures both.
    pub(crate) encryption: Option<String>,
}

/// Options and memory of a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionSetup {
    pub(crate) options: SessionOptions,
    pub(crate) memory: Memory,
}

impl SessionArgs {
    /// Sets the pair that both ends use.
    pub(crate) fn use_pair(&mut self, pair: GpuNicPair) {
        (self.gpu, self.nic) = (pair.gpu, vec![pair.nic.clone()]);
        self.pair = Some(pair);
    }

    /// Sets the encryption that both ends use.
    pub(crate) fn use_encryption(&mut self, encryption: Encryption) {
        self.encryption = Some(encryption);
    }

    /// Returns the setup by flags, then environment, then defaults.
    pub(crate) fn setup(&self, budget: Budget) -> Result<SessionSetup, Failure> {
        let mut options = SessionOptions::from_env()?;
        if let Some(plugin) = &self.plugin {
            options.plugin = plugin.clone();
        }
        if !self.nic.is_empty() {
            options.nics.clone_from(&self.nic);
        }
        if let Some(unpack) = self.unpack {
            options.unpack = unpack;
        }
        if let Some(ByteSize(bytes)) = self.chunk {
            options.chunk_bytes = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        if let Some(channels) = self.channels {
            options.channels = Some(channels);
        }
        if let Some(encryption) = self.encryption {
            options.encryption = encryption;
            if encryption == Encryption::Off {
                // Certificates that the environment names serve encryption only.
                (options.tls_cert, options.tls_key, options.tls_ca) = (None, None, None);
            }
        }
        // A command shows the channels that it connects, so all must be connected.
        options.connect_channels = true;
        options.notification_bytes = options.notification_bytes.max(RESULT_LIMIT as u32);
        limit_waits(&mut options, budget);
        let gpu = self.gpu.or(options.gpu);
        let choice = self.memory.unwrap_or_default();
        // The driver is asked only when its answer matters.
        let has_gpu = gpu.is_some() || (choice == MemoryChoice::Auto && tcpx_core::gpu_count() > 0);
        let memory = choice.decide(has_gpu);
        self.with_gpu(SessionSetup { options, memory })
    }

    /// With `--isolate`, opens the plugin in a process of its own first.
    pub(crate) fn try_plugin(
        &self,
        options: &SessionOptions,
        budget: Budget,
    ) -> Result<(), Failure> {
        match Transport::of(Some(&options.plugin))?.path() {
            Some(path) if self.isolate => isolation::try_plugin(path, options.gpu, budget),
            _ => Ok(()),
        }
    }

    /// Returns the client's request to the server. `options` and `memory` are those of the setup.
    pub(crate) fn request(&self, options: &SessionOptions, memory: Memory) -> SessionRequest {
        let of_variable = (options.unpack != UnpackChoice::Auto).then_some(options.unpack);
        SessionRequest {
            chunk_bytes: options.chunk_bytes,
            channels: options.channels.unwrap_or(0),
            memory,
            unpack: self.unpack.or(of_variable).map(|unpack| unpack.to_string()),
            pair: self.pair.clone(),
            encryption: self.encryption.map(|encryption| encryption.to_string()),
        }
    }

    /// Returns the server's setup by the client's request. Fails where this end has a flag with
    /// another value.
    pub(crate) fn adopt(
        &self,
        request: &SessionRequest,
        budget: Budget,
    ) -> Result<SessionSetup, Failure> {
        let chunk = self.chunk.map(|chunk| chunk.0);
        require_same("--chunk", chunk, request.chunk_bytes.unwrap_or(DEFAULT_CHUNK_BYTES).into())?;
        let asked = (request.channels != 0).then_some(request.channels);
        let own = self.channels.filter(|channels| *channels != 0);
        if let Some(asked) = asked {
            require_same("--channels", own, asked)?;
        }
        let memory = self.memory.filter(|memory| *memory != MemoryChoice::Auto);
        require_same("--memory", memory.map(|memory| memory.decide(false)), request.memory)?;
        let mut setup = self.setup(budget)?;
        if let Some(name) = &request.unpack {
            require_same("--unpack", self.unpack.map(|unpack| unpack.to_string()), name.clone())?;
            setup.options.unpack = name.parse().map_err(|error| {
                Failure::RefusedHere(format!("the client asks for unpack {name:?}: {error}"))
            })?;
        }
        if let Some(GpuNicPair { gpu, nic }) = &request.pair {
            if self.nic.is_empty() {
                setup.options.nics = vec![nic.clone()];
            }
            setup.options.gpu = *gpu;
        }
        if let Some(name) = &request.encryption {
            setup.options.encryption = name.parse().map_err(|error| {
                Failure::RefusedHere(format!("the client asks for encryption {name:?}: {error}"))
            })?;
        }
        setup.options.chunk_bytes = request.chunk_bytes;
        setup.options.channels = asked.or(setup.options.channels);
        setup.memory = request.memory;
        self.with_gpu(setup)
    }

    /// Sets the GPU that belongs to the memory.
    fn with_gpu(&self, mut setup: SessionSetup) -> Result<SessionSetup, Failure> {
        let gpu = self.gpu.or(setup.options.gpu);
        setup.options.gpu = match (setup.memory, self.gpu) {
            (Memory::Cuda, _) => Some(gpu.unwrap_or(0)),
            (memory, Some(gpu)) => {
                let text = format!(
                    "--gpu {gpu} does not go with {memory} memory: leave it out, or use --memory \
                     cuda"
                );
                return Err(Failure::Usage(text));
            }
            (_, None) => None,
        };
        Ok(setup)
    }
}

/// Bounds the session's own waits by the command's time.
fn limit_waits(options: &mut SessionOptions, budget: Budget) {
    let left = budget.step().left();
    options.connect_timeout = left;
    if let Some(limit) = budget.goodbye() {
        options.close_timeout = options.close_timeout.min(limit);
        let of_peer = |timeout: Duration| timeout.min(left).max(SHORTEST_PEER_TIMEOUT);
        options.peer_timeout = options.peer_timeout.map(of_peer);
    }
}

/// Refuses a value of the client that differs from this end's. `own`: the value of the server's
/// flag, if it was given.
pub(crate) fn require_same<T: PartialEq + Display>(
    flag: &str,
    own: Option<T>,
    asked: T,
) -> Result<(), Failure> {
    match own {
        Some(own) if own != asked => Err(Failure::RefusedHere(format!(
            "the server was started with {flag} {own}, the client asks for {asked}; give both the \
             same, or leave it to the client"
        ))),
        _ => Ok(()),
    }
}

/// Returns a session over the software plugin, and the request of a client with such a session.
#[cfg(test)]
pub(crate) fn test_session() -> (tcpx_core::Session, SessionRequest) {
    let mut options = SessionOptions::default().progress_thread(false).with_env().unwrap();
    options.connect_channels = true;
    options.plugin = PluginChoice::Soft;
    options.notification_bytes = RESULT_LIMIT as u32;
    let chunk_bytes = options.chunk_bytes;
    let request = SessionRequest {
        chunk_bytes,
        channels: 2,
        memory: Memory::Emulated,
        unpack: None,
        pair: None,
        encryption: None,
    };
    (tcpx_core::Session::new(options).unwrap(), request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> SessionArgs {
        SessionArgs {
            plugin: None,
            gpu: None,
            nic: Vec::new(),
            memory: None,
            unpack: None,
            chunk: None,
            channels: None,
            isolate: false,
            pair: None,
            encryption: None,
        }
    }

    fn request() -> SessionRequest {
        SessionRequest {
            chunk_bytes: Some(65_536),
            channels: 3,
            memory: Memory::Host,
            unpack: None,
            pair: None,
            encryption: None,
        }
    }

    #[test]
    fn a_server_without_flags_adopts_everything() {
        let setup = args().adopt(&request(), Budget::new(None)).unwrap();
        assert_eq!((setup.options.chunk_bytes, setup.options.channels), (Some(65_536), Some(3)));
        assert_eq!((setup.memory, setup.options.gpu), (Memory::Host, None));
        let asked = SessionRequest { unpack: Some("host".into()), ..request() };
        assert_eq!(
            args().adopt(&asked, Budget::new(None)).unwrap().options.unpack.to_string(),
            "host"
        );
    }

    #[test]
    fn a_server_uses_the_clients_pair_unless_it_has_its_own() {
        let pair = Some(GpuNicPair { gpu: Some(3), nic: "eth1".into() });
        let asked = SessionRequest { pair, memory: Memory::Cuda, ..request() };
        let adopted = |args: SessionArgs| {
            let options = args.adopt(&asked, Budget::new(None)).unwrap().options;
            (options.gpu, options.nics)
        };
        assert_eq!(adopted(args()), (Some(3), vec!["eth1".to_owned()]));
        let own = SessionArgs { gpu: Some(5), nic: vec!["eth2".into()], ..args() };
        assert_eq!(adopted(own), (Some(5), vec!["eth2".to_owned()]));
    }

    #[test]
    fn a_server_with_other_flags_refuses_and_names_both_values() {
        let other =
            |args: SessionArgs| args.adopt(&request(), Budget::new(None)).unwrap_err().to_string();
        let text = other(SessionArgs { channels: Some(4), ..args() });
        assert!(text.contains("--channels 4") && text.contains("asks for 3"), "{text}");
        let text = other(SessionArgs { chunk: Some(ByteSize(4096)), ..args() });
        assert!(text.contains("--chunk 4096") && text.contains("asks for 65536"), "{text}");
        let text = other(SessionArgs { memory: Some(MemoryChoice::Emulated), ..args() });
        assert!(text.contains("--memory emulated") && text.contains("asks for host"), "{text}");
        let same = SessionArgs { channels: Some(3), memory: Some(MemoryChoice::Auto), ..args() };
        assert!(same.adopt(&request(), Budget::new(None)).is_ok());
    }

    #[test]
    fn an_unpack_name_from_the_wire_is_not_trusted() {
        let asked = SessionRequest { unpack: Some("rm -rf".into()), ..request() };
        let text = args().adopt(&asked, Budget::new(None)).unwrap_err().to_string();
        assert!(text.contains("rm -rf") && text.contains("d2d"), "{text}");
    }

    #[test]
    fn a_gpu_means_cuda_memory_and_nothing_else() {
        let gpu = SessionArgs { gpu: Some(3), ..args() };
        let setup = gpu.setup(Budget::new(None)).unwrap();
        assert_eq!((setup.memory, setup.options.gpu), (Memory::Cuda, Some(3)));
        let host = SessionArgs { memory: Some(MemoryChoice::Host), ..gpu };
        assert!(matches!(host.setup(Budget::new(None)), Err(Failure::Usage(_))));
        let cuda = SessionArgs { memory: Some(MemoryChoice::Cuda), ..args() };
        assert_eq!(cuda.setup(Budget::new(None)).unwrap().options.gpu, Some(0));
    }
    #[test]
    fn a_session_waits_no_longer_than_the_command() {
        let second = Duration::from_secs(1);
        let options = args().setup(Budget::new(Some(4 * second))).unwrap().options;
        assert!(options.connect_timeout <= 3 * second, "a second is reserved for the end");
        assert!(options.peer_timeout.unwrap() <= 3 * second);
        assert_eq!(options.close_timeout, second * 2 / 3);
        let late = args().setup(Budget::new(Some(second / 1000))).unwrap().options;
        assert!(tcpx_core::Session::new(late).is_ok(), "the library takes what is left");
        let own = args().setup(Budget::new(None)).unwrap().options;
        let default = SessionOptions::from_env().unwrap();
        assert!(options.connect_timeout < own.connect_timeout);
        assert!(own.connect_timeout <= 30 * second);
        assert_eq!(
            (own.close_timeout, own.peer_timeout),
            (default.close_timeout, default.peer_timeout)
        );
    }
}
