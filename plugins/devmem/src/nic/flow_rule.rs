//! Rule that sends one TCP connection to a receive queue, and its form in the kernel's `struct
//! ethtool_rxnfc`. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The kernel's numbers of TCP packets over IPv4, and over IPv6.
const TCP_V4: u32 = 1;
const TCP_V6: u32 = 5;
/// Extension flags that any kind of rule may have. Rules made here have none.
const FLOW_EXTENSIONS: u32 = 0xe000_0000;

/// Offsets in `struct ethtool_rxnfc`: in 64-bit words, as the struct is aligned, and in bytes.
pub(super) const RXNFC_WORDS: usize = 24;
const FLOW_TYPE: usize = 16;
const VALUES: usize = 20;
const MASKS: usize = 92;
const UNION_BYTES: usize = 52;
const RING: usize = 168;
const LOCATION: usize = 176;
pub(super) const RULE_COUNT: usize = 184;
pub(super) const RULE_LOCATIONS: usize = 188;

/// Location that lets the driver find a place for the rule.
const ANY_LOCATION: u32 = u32::MAX;

/// Rule that sends the packets of one end of a connection to `queue` of the other end's NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRule {
    /// Source address of the packets.
    pub from: SocketAddr,
    /// Destination address of the packets, which the NIC has.
    pub to: SocketAddr,
    /// Receive queue for the packets.
    pub queue: u32,
}

/// Returns addresses and ports of either family, as they lie in the union of the kernel's struct.
fn union_bytes(from: SocketAddr, to: SocketAddr) -> (u32, [u8; UNION_BYTES]) {
    let mut bytes = [0; UNION_BYTES];
    let (kind, ports) = match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes[..4].copy_from_slice(&from.octets());
            bytes[4..8].copy_from_slice(&to.octets());
            (TCP_V4, 8)
        }
        (from, to) => {
            bytes[..16].copy_from_slice(&as_v6(from).octets());
            bytes[16..32].copy_from_slice(&as_v6(to).octets());
            (TCP_V6, 32)
        }
    };
    bytes[ports..ports + 2].copy_from_slice(&from.port().to_be_bytes());
    bytes[ports + 2..ports + 4].copy_from_slice(&to.port().to_be_bytes());
    (kind, bytes)
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Returns the mask of significant bits of the union: all of the addresses and the ports.
fn full_mask(kind: u32) -> [u8; UNION_BYTES] {
    let used = if kind == TCP_V4 { 12 } else { 36 };
    std::array::from_fn(|at| if at < used { 0xff } else { 0 })
}

impl FlowRule {
    /// Returns the struct that inserts the rule.
    pub(super) fn encode(&self, command: u32) -> [u64; RXNFC_WORDS] {
        let mut bytes = [0; RXNFC_WORDS * 8];
        let (kind, values) = union_bytes(self.from, self.to);
        bytes[..4].copy_from_slice(&command.to_ne_bytes());
        bytes[FLOW_TYPE..FLOW_TYPE + 4].copy_from_slice(&kind.to_ne_bytes());
        bytes[VALUES..VALUES + UNION_BYTES].copy_from_slice(&values);
        bytes[MASKS..MASKS + UNION_BYTES].copy_from_slice(&full_mask(kind));
        bytes[RING..RING + 8].copy_from_slice(&u64::from(self.queue).to_ne_bytes());
        bytes[LOCATION..LOCATION + 4].copy_from_slice(&ANY_LOCATION.to_ne_bytes());
        to_words(&bytes)
    }

    /// Decodes the kernel's description of a rule. Returns a rule only if it could have been made
    /// here: whole addresses and ports of one connection, to one queue.
    pub(super) fn decode(words: &[u64; RXNFC_WORDS]) -> Option<Self> {
        let bytes = to_bytes(words);
        let kind = u32_at(&bytes, FLOW_TYPE);
        let values: &[u8; UNION_BYTES] = bytes.get(VALUES..)?.first_chunk()?;
        let masks: &[u8; UNION_BYTES] = bytes.get(MASKS..)?.first_chunk()?;
        if kind & FLOW_EXTENSIONS != 0 || ![TCP_V4, TCP_V6].contains(&kind) {
            return None;
        }
        if *masks != full_mask(kind) {
            return None;
        }
        let queue = u32::try_from(u64::from_ne_bytes(*bytes.get(RING..)?.first_chunk()?)).ok()?;
        let address = |at: usize| -> Option<IpAddr> {
            Some(match kind {
                TCP_V4 => Ipv4Addr::from(*values.get(at * 4..)?.first_chunk::<4>()?).into(),
                _ => Ipv6Addr::from(*values.get(at * 16..)?.first_chunk::<16>()?).into(),
            })
        };
        let ports = if kind == TCP_V4 { 8 } else { 32 };
        let port = |at: usize| Some(u16::from_be_bytes(*values.get(ports + at..)?.first_chunk()?));
        Some(Self {
            from: SocketAddr::new(address(0)?, port(0)?),
            to: SocketAddr::new(address(1)?, port(2)?),
            queue,
        })
    }
}

/// Returns a struct that has only a command and the location of a rule.
pub(super) fn about_location(command: u32, location: u32) -> [u64; RXNFC_WORDS] {
    let mut bytes = [0; RXNFC_WORDS * 8];
    bytes[..4].copy_from_slice(&command.to_ne_bytes());
    bytes[LOCATION..LOCATION + 4].copy_from_slice(&location.to_ne_bytes());
    to_words(&bytes)
}

/// Returns the location at which the kernel has put a rule.
pub(super) fn location(words: &[u64]) -> u32 {
    u32_at(&to_bytes(words), LOCATION)
}

/// Returns the number of rules according to the struct.
pub(super) fn rule_count(words: &[u64]) -> u32 {
    u32_at(&to_bytes(words), RULE_COUNT)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u32::from_ne_bytes)
}

pub(super) fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn to_words(bytes: &[u8; RXNFC_WORDS * 8]) -> [u64; RXNFC_WORDS] {
    let mut words = [0; RXNFC_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes);
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(from: &str, to: &str) -> FlowRule {
        FlowRule { from: from.parse().expect("from"), to: to.parse().expect("to"), queue: 3 }
    }

    #[test]
    fn the_struct_is_laid_out_as_the_kernel_has_it() {
        let words = rule("10.0.0.1:258", "10.0.0.2:513").encode(0x32);
        let bytes = to_bytes(&words);
        assert_eq!(u32_at(&bytes, 0), 0x32);
        assert_eq!(u32_at(&bytes, 16), 1, "TCP over IPv4");
        assert_eq!(bytes[20..33], [10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 2, 1, 0]);
        assert_eq!(bytes[92..105], [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!(words[21], 3, "the queue");
        assert_eq!(location(&words), u32::MAX);
        let bytes = to_bytes(&rule("[fd77::1]:1", "[fd77::2]:2").encode(0x32));
        assert_eq!((u32_at(&bytes, 16), bytes[20], bytes[35], bytes[51]), (5, 0xfd, 1, 2));
        assert_eq!(bytes[52..57], [0, 1, 0, 2, 0]);
        assert_eq!((bytes[92], bytes[127], bytes[128]), (255, 255, 0));
    }

    #[test]
    fn mapped_addresses_are_of_the_old_family() {
        let mapped = rule("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:2");
        assert_eq!(FlowRule::decode(&mapped.encode(0)), Some(rule("10.0.0.1:1", "10.0.0.2:2")));
    }

    #[test]
    fn rules_that_others_made_are_left_alone() {
        let words = rule("10.0.0.1:1", "10.0.0.2:2").encode(0);
        for (word, bits) in [(2, 2), (2, 1 << 31), (11, 1 << 40), (21, 1 << 32)] {
            let mut other = words;
            other[word] ^= bits;
            assert_eq!(FlowRule::decode(&other), None, "word {word}");
        }
        assert_eq!(FlowRule::decode(&[0; RXNFC_WORDS]), None);
    }

    proptest! {
        #[test]
        fn every_rule_is_read_back(from: SocketAddr, to: SocketAddr, queue: u32) {
            let is_v4 = from.ip().to_canonical().is_ipv4() && to.ip().to_canonical().is_ipv4();
            let plain = |address: SocketAddr| {
                let ip = if is_v4 { address.ip().to_canonical() } else { as_v6(address.ip()).into() };
                SocketAddr::new(ip, address.port())
            };
            let rule = FlowRule { from, to, queue };
            let expected = FlowRule { from: plain(from), to: plain(to), queue };
            prop_assert_eq!(FlowRule::decode(&rule.encode(0x32)), Some(expected));
        }

        #[test]
        fn any_struct_is_read(words: [u64; RXNFC_WORDS]) {
            let _ = FlowRule::decode(&words);
        }
    }
}
