//! Identity of a session towards its peers: what it announces on a link, and the secret that proves
//! it.
//!
//! Also the number of channels that a session offers a peer when the program has not set a number.
//!
//! A channel of the software plugin has helper threads if the host has enough processors. There
//! several channels are faster than two. Each channel costs threads, descriptors and pinned memory,
//! so the sum of all chosen channels in a process is limited. Peers beyond the limit get the
//! fewest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tcpx_protocol::frames::conn_info::{Secret, SessionId};
use tcpx_protocol::frames::eager_terms::{ANY_LENGTH, EagerOffer};
use tcpx_protocol::frames::hello::{Agreement, Hello, Nonce};
use tcpx_protocol::frames::link_frame::PROTOCOL_VERSION;
use tcpx_protocol::types::MAX_CHANNELS;
use tcpx_protocol::types::encryption::Encryption;
use tcpx_protocol::types::memory::Device;
use tcpx_protocol::types::nic::NicLinks;
use tcpx_sys::UNPACK_VERSION;

use super::approach::dial_timeout;
use super::socket::LinkSocket;
use super::tls::Credentials;
use crate::error::{Error, Result};
use crate::plugin::nics::SessionNics;
use crate::settings::SessionOptions;
use crate::transfer::link_buffers::LINK_DEVICE_BYTES;

/// Link to a peer that has proven itself, and what its hello and this end's come to.
#[derive(Debug)]
pub(crate) struct ProvenLink {
    pub(crate) link: LinkSocket,
    pub(crate) agreement: Agreement,
    pub(crate) channels: ChannelClaim,
    /// NICs that the peer names.
    pub(crate) peer_nics: NicLinks,
}

/// One session as its peers see it. It never changes.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) session: SessionId,
    /// Secret in the session's connection info.
    pub(crate) secret: Secret,
    /// Time in which an address must answer a connection request.
    pub(crate) dial_timeout: Duration,
    /// Time for which a peer's host may acknowledge nothing. `None`: without limit.
    pub(crate) host_timeout: Option<Duration>,
    name: String,
    plugin: String,
    chunk_bytes: u32,
    channels: ChannelOffer,
    gpu: Option<u32>,
    progress_thread: bool,
    accept_all: bool,
    on_demand: bool,
    eager: EagerOffer,
    note_bytes: u32,
    /// NICs that the session may use.
    pub(crate) nics: Arc<SessionNics>,
    /// What the session proves itself with on encrypted links.
    pub(crate) credentials: Credentials,
    /// Its setting of encryption.
    pub(crate) encryption: Encryption,
}

impl Identity {
    /// Makes the identity of a device of the session with these credentials and secret, and no NIC.
    /// `chunk_bytes` is the largest chunk that it takes.
    pub(crate) fn new(
        (device, credentials, secret): (Device, Credentials, Secret),
        options: &SessionOptions,
        plugin: &str,
        chunk_bytes: u32,
        channels: ChannelOffer,
    ) -> Self {
        Self {
            session: device.session_of(credentials.session()),
            secret,
            dial_timeout: dial_timeout(options.connect_timeout),
            host_timeout: options.peer_timeout,
            name: options.name.clone(),
            plugin: plugin.to_owned(),
            chunk_bytes,
            channels,
            gpu: options.gpu,
            progress_thread: options.progress_thread,
            accept_all: options.accept_all,
            on_demand: channels.may_wait() && options.eager_bytes > 0 && !options.connect_channels,
            eager: eager_offer(options),
            note_bytes: options.notification_bytes,
            nics: Arc::default(),
            credentials,
            encryption: options.encryption,
        }
    }

    /// Adds the NICs that the session may use.
    pub(crate) fn with_nics(self, nics: SessionNics) -> Self {
        Self { nics: Arc::new(nics), ..self }
    }

    /// Claims the channels to one more peer, which the hello to the peer offers.
    pub(crate) fn claim_channels(&self) -> ChannelClaim {
        self.channels.claim()
    }

    /// Returns the hello of this end for a new link, which offers `channels` channels, and names no
    /// NIC.
    pub(crate) fn hello(&self, nonce: Nonce, channels: u16) -> Hello {
        Hello {
            protocol: PROTOCOL_VERSION,
            session: self.session,
            name: self.name.clone(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            plugin: self.plugin.clone(),
            unpack_version: UNPACK_VERSION,
            chunk_bytes: self.chunk_bytes,
            channels,
            gpu: self.gpu,
            progress_thread: self.progress_thread,
            accept_all: self.accept_all,
            on_demand: self.on_demand,
            eager: self.eager,
            note_bytes: self.note_bytes,
            encryption: self.encryption,
            nics: NicLinks::default(),
            to: 0,
            connection: 0,
            instead_of: None,
            nonce,
        }
    }
}

/// Returns which small messages a session takes on its links. Those of a GPU's memory, which the
/// CPU does not reach, go through a buffer.
fn eager_offer(options: &SessionOptions) -> EagerOffer {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    EagerOffer {
        bytes: options.eager_bytes,
        buffer_bytes: options.eager_buffer_bytes,
        device_bytes: if options.gpu.is_some() { LINK_DEVICE_BYTES } else { ANY_LENGTH },
        access_bytes: options.link_bytes.bytes(processors),
    }
}

/// Makes the credentials of a new session, and its secret.
///
/// # Errors
/// [`Error::Io`] when the system has no random bytes; [`Error::Setting`] when the files of
/// certificates cannot be used.
pub(crate) fn new_id(options: &SessionOptions) -> Result<(Credentials, Secret)> {
    Ok((Credentials::new(options)?, Secret(random()?)))
}

/// Returns unpredictable bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::io("reading random bytes", &std::io::Error::from(error)))?;
    Ok(bytes)
}

/// Number of channels where more would not be faster, because comms have no threads of their own
/// there.
const FEWEST: u16 = 2;
/// Number of channels to one peer beyond which more are hardly faster, in a host whose peers share
/// it.
const MOST: u16 = 8;
/// Number of processors for each channel. The threads of a channel at both ends of a host then
/// leave room for the sessions' own threads.
const PROCESSORS_A_CHANNEL: usize = 2;
/// Number of processors from which comms have threads.
const PROCESSORS_WITH_THREADS: usize = 8;
/// Number of channels for each processor that may be chosen in a process.
const CHANNELS_A_PROCESSOR: usize = 4;

/// Number of channels of all sessions of this process. Includes channels that are being connected.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Number of channels that a session offers, and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelOffer {
    /// The number that the program asked for.
    Asked(u16),
    /// `count`, or `fewest` if the process would have more than `room` with `count`. If `may_wait`,
    /// the channels are made on first use.
    Chosen { count: u16, fewest: u16, room: usize, may_wait: bool },
}

impl ChannelOffer {
    /// Returns the offer over the software plugin, for a process that may use `processors`
    /// processors. The process names `nics` NICs, and each gets a channel.
    pub(crate) fn by_processors(processors: usize, nics: usize) -> Self {
        let count = match processors {
            0..PROCESSORS_WITH_THREADS => FEWEST,
            enough => clamp(enough / PROCESSORS_A_CHANNEL, FEWEST, MOST),
        };
        let [count, fewest] = [count, FEWEST].map(|count| clamp(nics, count, MAX_CHANNELS));
        let room = processors.saturating_mul(CHANNELS_A_PROCESSOR);
        Self::Chosen { count, fewest, room, may_wait: true }
    }

    /// Returns the offer over a plugin whose NICs move the bytes by themselves.
    pub(crate) fn by_nics(nics: usize) -> Self {
        let count = clamp(nics, FEWEST, MAX_CHANNELS);
        Self::Chosen { count, fewest: count, room: usize::MAX, may_wait: false }
    }

    /// Returns whether a peer may be up before its channels are made.
    pub(crate) fn may_wait(self) -> bool {
        matches!(self, Self::Chosen { may_wait: true, .. })
    }

    /// Claims the channels to one more peer.
    pub(crate) fn claim(self) -> ChannelClaim {
        self.claim_of(&TAKEN)
    }

    fn claim_of(self, taken: &'static AtomicUsize) -> ChannelClaim {
        let mut before = taken.load(Ordering::Relaxed);
        loop {
            let count = self.count_beside(before);
            let after = before + usize::from(count);
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match taken.compare_exchange_weak(before, after, success, failure) {
                Ok(_) => return ChannelClaim { count, taken },
                Err(now) => before = now,
            }
        }
    }

    fn count_beside(self, taken: usize) -> u16 {
        match self {
            Self::Asked(count) => count,
            Self::Chosen { count, room, .. } if taken + usize::from(count) <= room => count,
            Self::Chosen { fewest, .. } => fewest,
        }
    }
}

fn clamp(count: usize, least: u16, most: u16) -> u16 {
    u16::try_from(count).unwrap_or(most).clamp(least, most)
}

/// Claim on the channels to one peer, from the hello that offers them until they are closed.
#[derive(Debug)]
pub(crate) struct ChannelClaim {
    count: u16,
    taken: &'static AtomicUsize,
}

impl ChannelClaim {
    /// Returns the number of channels that this end offers.
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// Keeps the `agreed` channels, which may be fewer, and releases the others.
    pub(crate) fn keep(&mut self, agreed: u16) {
        let left = self.count.saturating_sub(agreed);
        self.taken.fetch_sub(left.into(), Ordering::Relaxed);
        self.count -= left;
    }
}

impl Drop for ChannelClaim {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count.into(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(offer: ChannelOffer) -> u16 {
        offer.count_beside(0)
    }

    #[test]
    fn what_is_chosen_follows_the_processors() {
        let chosen = [1, 2, 4, 7, 8, 12, 16, 32, 208]
            .map(|processors| count(ChannelOffer::by_processors(processors, 0)));
        assert_eq!(chosen, [2, 2, 2, 2, 4, 6, 8, 8, 8]);
    }

    #[test]
    fn every_nic_that_is_named_gets_a_channel() {
        let chosen = [0, 1, 2, 4, 16, 1000].map(|nics| count(ChannelOffer::by_nics(nics)));
        assert_eq!(chosen, [2, 2, 2, 4, 16, 64]);
        let chosen = [1, 3, 1000].map(|nics| count(ChannelOffer::by_processors(2, nics)));
        assert_eq!(chosen, [2, 3, 64]);
    }

    #[test]
    fn many_peers_get_the_fewest_and_room_comes_back_with_those_that_leave() {
        static TAKEN: AtomicUsize = AtomicUsize::new(0);
        let offer = ChannelOffer::by_processors(16, 0);
        let mut claims: Vec<_> = (0..100).map(|_| offer.claim_of(&TAKEN)).collect();
        let counts: Vec<_> = claims.iter().map(ChannelClaim::count).collect();
        assert_eq!((&counts[..8], &counts[8..10]), (&[8; 8][..], &[2; 2][..]));
        assert_eq!(TAKEN.load(Ordering::Relaxed), 64 + 92 * 2);
        claims.truncate(7);
        assert_eq!(offer.claim_of(&TAKEN).count(), 8);
        assert_eq!(ChannelOffer::Asked(60).claim_of(&TAKEN).count(), 60, "it was asked for");
        claims.clear();
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_the_other_end_does_not_take_is_free_again() {
        static TAKEN: AtomicUsize = AtomicUsize::new(0);
        let mut claim = ChannelOffer::Asked(8).claim_of(&TAKEN);
        claim.keep(3);
        assert_eq!((claim.count(), TAKEN.load(Ordering::Relaxed)), (3, 3));
        claim.keep(9);
        assert_eq!(claim.count(), 3);
        drop(claim);
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
    }
}
