//! Settings, from the environment or from [`crate::configure`]. The crate's documentation (lib.rs,
//! "Settings") lists every variable with its default and reason.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use tcpx_comm::wire::{MAX_CHUNK_BYTES, MAX_INLINE_BYTES, MAX_SOCKETS};

use super::helper_cpus::HelperCpus;
use super::nccl_mode::NcclMode;
use super::variables::{SettingsError, Variables, narrow, refuse_scripts};
use crate::comm::ZeroCopy;
use crate::memory::{BounceMemory, DeviceMemory};
use crate::parse_error::ParseError;
use crate::transport::Transport;

/// Thread that moves payload between sockets and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Helpers {
    /// Helper threads on machines with eight processors or more, and on others the thread that
    /// calls `test`.
    #[default]
    Auto,
    /// The thread that calls `test`.
    Off,
    /// Helper threads, as many per comm as [`Settings::threads`].
    On,
}

impl FromStr for Helpers {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "auto" => Ok(Self::Auto),
            "0" => Ok(Self::Off),
            "1" => Ok(Self::On),
            _ => Err(ParseError::new("0, 1 or auto")),
        }
    }
}

/// Everything that can be set, once per process and before `init`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Interfaces to offer: comma-separated prefixes, `=` for exact names, `^` to exclude. `None`:
    /// the best kind there is.
    pub interfaces: Option<String>,
    /// Bytes of one chunk, 1..=2^30; the sender's value counts.
    pub chunk_bytes: u32,
    /// Data sockets of a comm, 1..=8; the listener's value counts.
    pub sockets: u16,
    /// Helper threads of a comm, 1..=8, when [`Settings::helpers`] has any.
    pub threads: u16,
    /// Sends wait until the peer has posted the receive. Both ends must agree.
    pub recv_sync: bool,
    /// Carrier of payload between hosts.
    pub transport: Transport,
    /// Thread that moves payload.
    pub helpers: Helpers,
    /// Where helper threads run.
    pub cpus: HelperCpus,
    /// Messages of up to this many bytes, 0..=32768, travel on the control socket with their
    /// record: one system call instead of two. While no other message is under way, so do those of
    /// up to four times as many bytes, 32768 at most.
    pub inline_bytes: u32,
    /// Bytes of the bounce region, a multiple of 4096 up to 4 GiB. Memory is taken as it is used.
    pub pool_bytes: u64,
    /// What device memory is.
    pub memory: DeviceMemory,
    /// Where a GPU finds the bounce region.
    pub bounce: BounceMemory,
    /// How receives reach GPU memory when NCCL has loaded the plugin.
    pub nccl: NcclMode,
    /// Overwrite bounce pages with 0xDB when they are recycled, so that a copy made too late shows.
    pub poison: bool,
    /// How long one connect or accept may take.
    pub connect_timeout: Duration,
    /// Time without a sign of the peer's host after which a comm is dead (whole seconds, at least
    /// four). The host gives no sign while it acknowledges nothing that the comm has sent, or
    /// leaves the system's probes of an idle connection unanswered. `None`: for ever.
    pub peer_timeout: Option<Duration>,
    /// Whether the system sends chunks from the messages' own memory.
    pub zerocopy: ZeroCopy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interfaces: None,
            chunk_bytes: 512 << 10,
            sockets: 1,
            threads: 1,
            recv_sync: false,
            transport: Transport::Tcp,
            helpers: Helpers::Auto,
            cpus: HelperCpus::default(),
            inline_bytes: 8 << 10,
            pool_bytes: 256 << 20,
            memory: DeviceMemory::Auto,
            bounce: BounceMemory::Host,
            nccl: NcclMode::Host,
            poison: false,
            connect_timeout: Duration::from_secs(20),
            peer_timeout: Some(Duration::from_secs(10)),
            zerocopy: ZeroCopy::Off,
        }
    }
}

const PAGE_BYTES: u64 = tcpx_sys::UNPACK_PAGE_BYTES as u64;
const MAX_POOL_BYTES: u64 = 1 << 32;

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// The first variable with a value that is not allowed, or the chunk size when it is not set.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_variables(None, &environment)
    }

    /// Reads the environment, for a program that has a chunk size of its own when none is set
    /// there.
    ///
    /// # Errors
    /// The first variable with a value that is not allowed.
    pub fn from_env_or(chunk_bytes: u32) -> Result<Self, SettingsError> {
        Self::from_variables(Some(chunk_bytes), &environment)
    }

    /// Reads `variables` instead of the environment. `default_chunk_bytes`: the chunk size when
    /// none is set there.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_variables(
        default_chunk_bytes: Option<u32>,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let read = Variables { get: variables };
        if read.flag(ENABLE)? == Some(false) {
            return Err(SettingsError::Invalid {
                variable: ENABLE,
                value: "0".to_owned(),
                allowed: "1, or unset; 0 switches the plugin off",
            });
        }
        let default = Self::default();
        let chunk_bytes = read
            .number(CHUNK, 1, u64::from(MAX_CHUNK_BYTES))?
            .or(default_chunk_bytes.map(u64::from))
            .ok_or(SettingsError::Unset {
                variable: CHUNK,
                reason: "without it the original plugin never moves a byte; 524288 is usual",
            })?;
        let most = u64::from(MAX_SOCKETS);
        let threads = read.number("NCCL_SOCKET_NTHREADS", 1, most)?.unwrap_or(1);
        let per_thread = read.number("NCCL_NSOCKS_PERTHREAD", 1, most)?.unwrap_or(1);
        // As in the original, fewer sockets per thread rather than more than eight sockets.
        let sockets = per_thread.min(most / threads) * threads;
        let named = |variable| Some((variable, read.text(variable)?));
        let interfaces = named("TCPX_SOFT_IFNAME")
            .or_else(|| named("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"))
            .map(|(variable, list)| check_interfaces(variable, list))
            .transpose()?;
        let timeout_ms = read.number("TCPX_SOFT_CONNECT_TIMEOUT_MS", 1, 3_600_000)?;
        let peer_timeout = match read.number("TCPX_SOFT_PEER_TIMEOUT_MS", 0, 86_400_000)? {
            None => default.peer_timeout,
            Some(0) => None,
            Some(time) => Some(Duration::from_millis(time)),
        };
        refuse_scripts(&read)?;
        let settings = Self {
            interfaces,
            chunk_bytes: narrow(chunk_bytes),
            sockets: narrow(sockets),
            threads: narrow(threads),
            recv_sync: read.flag("NCCL_GPUDIRECTTCPX_RECV_SYNC")?.unwrap_or(default.recv_sync),
            transport: read.parsed("TCPX_SOFT_TRANSPORT")?.unwrap_or_default(),
            helpers: read.parsed("TCPX_SOFT_HELPERS")?.unwrap_or_default(),
            cpus: read.parsed("TCPX_SOFT_CPUS")?.unwrap_or_default(),
            inline_bytes: read
                .number("TCPX_SOFT_INLINE_BYTES", 0, MAX_INLINE_BYTES.into())?
                .map_or(default.inline_bytes, narrow),
            pool_bytes: read
                .number("TCPX_SOFT_POOL_BYTES", PAGE_BYTES, MAX_POOL_BYTES)?
                .unwrap_or(default.pool_bytes),
            memory: read.parsed("TCPX_SOFT_MEMORY")?.unwrap_or_default(),
            bounce: read.parsed("TCPX_SOFT_BOUNCE")?.unwrap_or_default(),
            nccl: read.parsed("TCPX_SOFT_NCCL")?.unwrap_or_default(),
            poison: read.flag("TCPX_SOFT_POISON")?.unwrap_or(default.poison),
            connect_timeout: timeout_ms.map_or(default.connect_timeout, Duration::from_millis),
            peer_timeout,
            zerocopy: read.parsed("TCPX_SOFT_ZEROCOPY")?.unwrap_or(default.zerocopy),
        };
        settings.check()?;
        Ok(settings)
    }

    /// Checks what a program may have filled in.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let in_range = |variable, value: u64, low: u64, high: u64, allowed| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(SettingsError::Invalid { variable, value: value.to_string(), allowed })
            }
        };
        let most = u64::from(MAX_SOCKETS);
        in_range("chunk_bytes", self.chunk_bytes.into(), 1, MAX_CHUNK_BYTES.into(), "1..=2^30")?;
        in_range("sockets", self.sockets.into(), 1, most, "1..=8")?;
        in_range("threads", self.threads.into(), 1, most, "1..=8")?;
        in_range(
            "inline_bytes",
            self.inline_bytes.into(),
            0,
            MAX_INLINE_BYTES.into(),
            "0..=32768",
        )?;
        let pool = "a multiple of 4096 up to 4 GiB";
        in_range("pool_bytes", self.pool_bytes, PAGE_BYTES, MAX_POOL_BYTES, pool)?;
        in_range("pool_bytes", self.pool_bytes % PAGE_BYTES, 0, 0, pool)?;
        let times =
            [("connect_timeout", Some(self.connect_timeout)), ("peer_timeout", self.peer_timeout)];
        for (variable, time) in times {
            if let Some(time) = time.filter(Duration::is_zero) {
                let value = format!("{time:?}");
                return Err(SettingsError::Invalid { variable, value, allowed: "more than 0" });
            }
        }
        self.interfaces
            .clone()
            .map_or(Ok(()), |list| check_interfaces("interfaces", list).map(drop))
    }

    /// Returns whether helper threads move the payload on a machine with this many processors.
    pub(crate) fn uses_helpers(&self, processors: usize) -> bool {
        match self.helpers {
            Helpers::On => true,
            Helpers::Off => false,
            Helpers::Auto => processors >= 8,
        }
    }
}

/// `list`, if it can be one. `variable`: where it comes from.
fn check_interfaces(variable: &'static str, list: String) -> Result<String, SettingsError> {
    if list.trim_start_matches(['^', '=']).len() >= 2 {
        return Ok(list);
    }
    Err(SettingsError::Invalid {
        variable,
        value: list,
        allowed: "names or prefixes of interfaces, of two or more characters, with commas between \
                  them; a leading = asks for exact names, a leading ^ for all others; unset it to \
                  offer every interface",
    })
}

const CHUNK: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
const ENABLE: &str = "NCCL_GPUDIRECTTCPX_SOCKET_ENABLE";

pub(super) fn environment(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_variables(None, &|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn chunk_size_must_be_set_and_whole() {
        assert!(matches!(parse(&[]), Err(SettingsError::Unset { variable: CHUNK, .. })));
        for nonsense in ["0", "512K", "-1", "0x1000", "2147483648"] {
            let refused = parse(&[(CHUNK, nonsense)]);
            assert!(
                matches!(refused, Err(SettingsError::Invalid { variable: CHUNK, .. })),
                "{nonsense}"
            );
        }
        assert_eq!(parse(&[(CHUNK, "4096")]).map(|s| s.chunk_bytes), Ok(4096));
    }

    #[test]
    fn sockets_are_capped_by_fewer_per_thread() {
        let sockets = |threads: &str, per_thread: &str| {
            parse(&[
                (CHUNK, "1"),
                ("NCCL_SOCKET_NTHREADS", threads),
                ("NCCL_NSOCKS_PERTHREAD", per_thread),
            ])
            .map(|settings| (settings.sockets, settings.threads))
        };
        assert_eq!(sockets("1", "1"), Ok((1, 1)));
        assert_eq!(sockets("2", "4"), Ok((8, 2)));
        assert_eq!(sockets("3", "8"), Ok((6, 3)));
        assert!(sockets("9", "1").is_err(), "the original would make no socket at all");
        assert!(sockets("0", "1").is_err());
    }

    #[test]
    fn every_nonsense_names_its_variable() {
        for (name, value) in [
            (ENABLE, "0"),
            (ENABLE, "off"),
            ("NCCL_GPUDIRECTTCPX_RECV_SYNC", "yes"),
            ("TCPX_SOFT_TRANSPORT", "rdma"),
            ("TCPX_SOFT_HELPERS", "2"),
            ("TCPX_SOFT_CPUS", "near"),
            ("TCPX_SOFT_CPUS", "3-1"),
            ("TCPX_SOFT_INLINE_BYTES", "32769"),
            ("TCPX_SOFT_POOL_BYTES", "5000000000"),
            ("TCPX_SOFT_MEMORY", "gpu"),
            ("TCPX_SOFT_BOUNCE", "pinned"),
            ("TCPX_SOFT_NCCL", "gpu"),
            ("TCPX_SOFT_POISON", "on"),
            ("TCPX_SOFT_CONNECT_TIMEOUT_MS", "0"),
            ("TCPX_SOFT_PEER_TIMEOUT_MS", "86400001"),
            ("TCPX_SOFT_ZEROCOPY", "1"),
        ] {
            match parse(&[(CHUNK, "1"), (name, value)]) {
                Err(SettingsError::Invalid { variable, .. }) => assert_eq!(variable, name),
                other => panic!("{name}={value}: {other:?}"),
            }
        }
        assert!(parse(&[(CHUNK, "1"), (ENABLE, "1")]).is_ok());
        assert!(parse(&[(CHUNK, "1"), ("TCPX_SOFT_IFNAME", "l")]).is_err());
        assert!(parse(&[(CHUNK, "1"), ("TCPX_SOFT_POOL_BYTES", "4097")]).is_err());
    }

    #[test]
    fn a_peer_timeout_of_zero_is_none() {
        let read = |text| {
            parse(&[(CHUNK, "1"), ("TCPX_SOFT_PEER_TIMEOUT_MS", text)]).map(|it| it.peer_timeout)
        };
        assert_eq!(read(""), Ok(Some(Duration::from_secs(10))));
        assert_eq!(read("0"), Ok(None));
        assert_eq!(read("1500"), Ok(Some(Duration::from_millis(1_500))));
    }

    #[test]
    fn it_refuses_to_be_scripted() {
        for (name, value) in [
            ("TCPX_SOFT_SHAPE", "all"),
            ("TCPX_SOFT_SEED", "1"),
            ("TCPX_SOFT_FAULTS", "lose:send@1"),
            ("TCPX_SOFT_ORIGINAL", "slow"),
            ("TCPX_SOFT_PACKET_BYTES", "1448"),
        ] {
            let refused = parse(&[(CHUNK, "1"), (name, value)]);
            assert!(
                matches!(refused, Err(SettingsError::Invalid { variable, .. }) if variable == name)
            );
        }
    }

    #[test]
    fn a_filled_in_struct_is_checked_like_the_environment() {
        assert_eq!(Settings::default().check(), Ok(()));
        let broken = [
            Settings { chunk_bytes: 0, ..Settings::default() },
            Settings { sockets: 9, ..Settings::default() },
            Settings { threads: 0, ..Settings::default() },
            Settings { pool_bytes: 4095, ..Settings::default() },
            Settings { connect_timeout: Duration::ZERO, ..Settings::default() },
            Settings { peer_timeout: Some(Duration::ZERO), ..Settings::default() },
            Settings { interfaces: Some("=e".to_owned()), ..Settings::default() },
        ];
        for settings in broken {
            assert!(matches!(settings.check(), Err(SettingsError::Invalid { .. })), "{settings:?}");
        }
    }
}
