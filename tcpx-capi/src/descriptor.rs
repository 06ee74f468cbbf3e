//! The bytes of a memory descriptor: what one end tells another about memory it has registered.
//!
//! Layout, little endian, 40 bytes: magic `TCPXMEMD`, format version (u16), body length (u16), body (base address u64,
//! size u64, pointer type i32), and the first 8 bytes of the SHA-256 of all of that. The digest finds truncation and
//! damage; it proves nothing about who made the bytes.

use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::memory::memory_type;
use crate::memory_descriptor::tcpx_memory_descriptor;
use crate::status::tcpx_status::TCPX_ERR_DESCRIPTOR;

const MAGIC: &[u8; 8] = b"TCPXMEMD";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 12;
const BODY_BYTES: usize = 20;
const SIGNED_BYTES: usize = HEADER_BYTES + BODY_BYTES;
const DIGEST_BYTES: usize = 8;
/// Bytes of a serialised descriptor.
pub(crate) const BYTES: usize = SIGNED_BYTES + DIGEST_BYTES;

/// Checks that such memory can be, and puts it into bytes.
pub(crate) fn encode(descriptor: &tcpx_memory_descriptor) -> Result<[u8; BYTES], Failure> {
    check(descriptor)?;
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&(BODY_BYTES as u16).to_le_bytes());
    bytes[12..20].copy_from_slice(&descriptor.base_addr.to_le_bytes());
    bytes[20..28].copy_from_slice(&descriptor.size.to_le_bytes());
    bytes[28..32].copy_from_slice(&descriptor.ptr_type.to_le_bytes());
    let digest = digest(&bytes[..SIGNED_BYTES]);
    bytes[SIGNED_BYTES..].copy_from_slice(&digest);
    Ok(bytes)
}

/// Reads bytes that [`encode`] made.
pub(crate) fn decode(bytes: &[u8]) -> Result<tcpx_memory_descriptor, Failure> {
    let header: &[u8; HEADER_BYTES] = bytes
        .first_chunk()
        .filter(|header| header.starts_with(MAGIC))
        .ok_or_else(|| refuse("these bytes are no memory descriptor of tcpx"))?;
    let version = u16::from_le_bytes([header[8], header[9]]);
    if version != VERSION {
        return Err(refuse(format!("format version {version}, this library reads {VERSION}")));
    }
    let body = usize::from(u16::from_le_bytes([header[10], header[11]]));
    let bytes: &[u8; BYTES] = bytes
        .try_into()
        .ok()
        .filter(|_| body == BODY_BYTES)
        .ok_or_else(|| refuse(format!("{} bytes, a descriptor has {BYTES}", bytes.len())))?;
    if digest(&bytes[..SIGNED_BYTES]) != bytes[SIGNED_BYTES..] {
        return Err(refuse("damaged on the way: the checksum does not match"));
    }
    let descriptor = tcpx_memory_descriptor {
        base_addr: u64::from_le_bytes(part(bytes, 12)),
        size: u64::from_le_bytes(part(bytes, 20)),
        ptr_type: i32::from_le_bytes(part(bytes, 28)),
    };
    check(&descriptor)?;
    Ok(descriptor)
}

fn check(descriptor: &tcpx_memory_descriptor) -> Result<(), Failure> {
    let tcpx_memory_descriptor { base_addr, size, ptr_type } = *descriptor;
    if memory_type(ptr_type).is_none() {
        return Err(refuse(format!("ptr_type {ptr_type} is not known")));
    }
    if base_addr == 0 || size == 0 || base_addr.checked_add(size).is_none() {
        return Err(refuse(format!("{size} bytes at {base_addr:#x} cannot be")));
    }
    Ok(())
}

/// `N` bytes from an offset that fits.
fn part<const N: usize>(bytes: &[u8; BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[offset + index])
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let whole: [u8; 32] = Sha256::digest(bytes).into();
    std::array::from_fn(|index| whole[index])
}

fn refuse(text: impl Into<String>) -> Failure {
    Failure::new(TCPX_ERR_DESCRIPTOR, text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAMPLE: tcpx_memory_descriptor =
        tcpx_memory_descriptor { base_addr: 0x7f00_0000_1000, size: 1 << 30, ptr_type: 2 };

    #[test]
    fn the_bytes_are_laid_out_as_documented() {
        let bytes = encode(&SAMPLE).unwrap();
        assert_eq!(bytes[..12], *b"TCPXMEMD\x01\x00\x14\x00");
        assert_eq!(bytes[12..20], 0x7f00_0000_1000u64.to_le_bytes());
        assert_eq!(bytes[20..28], (1u64 << 30).to_le_bytes());
        assert_eq!(bytes[28..32], 2i32.to_le_bytes());
    }

    #[test]
    fn each_fault_is_named() {
        let bytes = encode(&SAMPLE).unwrap();
        let words = |bytes: &[u8]| decode(bytes).unwrap_err().text;
        assert!(words(b"").contains("no memory descriptor"));
        assert!(words(b"0x7f0000001000,1073741824,2").contains("no memory descriptor"));
        assert!(words(&bytes[..39]).contains("39 bytes"));
        assert!(words(&[&bytes[..], b"x"].concat()).contains("41 bytes"));
        let mut newer = bytes;
        newer[8] = 2;
        assert!(words(&newer).contains("version 2"));
        for (descriptor, word) in [
            (tcpx_memory_descriptor { ptr_type: 3, ..SAMPLE }, "ptr_type 3"),
            (tcpx_memory_descriptor { base_addr: 0, ..SAMPLE }, "cannot be"),
            (tcpx_memory_descriptor { size: 0, ..SAMPLE }, "cannot be"),
            (tcpx_memory_descriptor { size: u64::MAX, ..SAMPLE }, "cannot be"),
        ] {
            assert!(encode(&descriptor).unwrap_err().text.contains(word));
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(base in 1u64..1 << 48, size in 1u64..1 << 48, ptr_type in 1i32..=2) {
            let descriptor = tcpx_memory_descriptor { base_addr: base, size, ptr_type };
            prop_assert_eq!(decode(&encode(&descriptor).unwrap()).unwrap(), descriptor);
        }

        #[test]
        fn no_single_changed_byte_goes_unseen(index in 0..BYTES, change in 1u8..) {
            let mut bytes = encode(&SAMPLE).unwrap();
            bytes[index] ^= change;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
