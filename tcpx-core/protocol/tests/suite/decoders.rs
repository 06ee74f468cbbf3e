//! Any bytes, where bytes come from outside.

use std::fmt::Debug;

use tcpx_protocol::exports::remote_key::{RemoteKey, seal};
use tcpx_protocol::frames::conn_info::{ConnInfo, ENVELOPE};
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::frames::handshake_frame::HandshakeFrame;
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_wire::frame::HEADER_BYTES;

/// Reads frames of each set until the bytes end or break a rule. What was read must come out the
/// same when it is written and read again.
pub(crate) fn frames(bytes: &[u8]) {
    frames_of_set::<HandshakeFrame>(bytes);
    frames_of_set::<Frame>(bytes);
}

fn frames_of_set<F: LinkFrame + Debug + PartialEq>(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((frame, taken))) = F::decode(rest) {
        assert!(taken >= HEADER_BYTES && taken <= HEADER_BYTES + F::MAX_BODY);
        let mut written = Vec::new();
        frame.encode(&mut written);
        let (again, _) = F::decode(&written).expect("own frames are good").expect("and whole");
        assert_eq!(again, frame);
        rest = &rest[taken..];
    }
}

/// Reads a key to remote memory, as it is and, if the bytes are enough for a body, with a checksum
/// that fits.
pub(crate) fn remote_key(bytes: &[u8]) {
    let read = |bytes: &[u8]| {
        if let Ok(key) = RemoteKey::deserialize(bytes) {
            assert_eq!(key.serialize(), bytes);
            assert!(key.address().checked_add(key.bytes()).is_some());
        }
    };
    read(bytes);
    if let Some(body) = bytes.first_chunk() {
        read(&seal(body));
    }
}

/// Reads connection info, as it is and with a checksum that fits.
pub(crate) fn conn_info(bytes: &[u8]) {
    let _ = ConnInfo::decode(bytes);
    if let Ok(info) = ConnInfo::decode(&ENVELOPE.seal(bytes)) {
        assert_eq!(ConnInfo::decode(&info.encode()), Ok(info));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            super::frames(&bytes);
            super::remote_key(&bytes);
            super::conn_info(&bytes);
        }
    }
}
