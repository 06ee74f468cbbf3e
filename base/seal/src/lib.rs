//! Encryption of what crosses the network: records, and the exchange of their keys.
//!
//! - [`suite`]: the ciphers, and which of them a processor has instructions for.
//! - [`secret`]: secrets of a direction and of a pair of ends; zeroed when they are dropped.
//! - [`record`]: a stream of encrypted records, which have the shape of TLS 1.3's.
//! - [`exchange`]: how both ends of one socket agree on the secrets of its two directions.
//!
//! ```
//! use tcpx_seal::record::{Opener, Sealer};
//! use tcpx_seal::secret::TrafficSecret;
//! use tcpx_seal::suite::Suite;
//!
//! let suite = Suite::fastest();
//! let mut sealer = Sealer::new(suite, TrafficSecret::new([7; 32]));
//! let mut opener = Opener::new(suite, TrafficSecret::new([7; 32]));
//!
//! let mut queue = Vec::new();
//! sealer.seal(b"hello", &mut queue)?;
//! let opened = opener.open(&mut queue)?.expect("a whole record");
//! assert_eq!(&queue[opened.plain], b"hello");
//! # Ok::<(), tcpx_seal::record::RecordError>(())
//! ```

pub mod exchange;
pub mod record;
pub mod secret;
pub mod suite;
