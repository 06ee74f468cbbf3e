//! An attacker on the way of one socket, whose changes are any bytes.

use tcpx_seal::exchange::{Answer, Offer};
use tcpx_seal::record::Opener;
use tcpx_seal::secret::SharedSecret;
use tcpx_seal::suite::Suite;

const HELLO: &[u8] = b"hello";
const REPLY: &[u8] = b"reply";

/// Changes what crosses the network by the bytes of `data`: pairs of a place and what is added to
/// the byte there, first for the offer, then for the answer, then for a record. Whatever was
/// changed is noticed, and whatever was not arrives.
///
/// # Panics
/// If a change is not noticed, or an error has no cause.
pub(crate) fn check(data: &[u8]) {
    let secret = SharedSecret::new([3; 32]);
    let suite =
        if data.len().is_multiple_of(2) { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 };
    let mut changes = data.chunks(8);
    let offer = Offer::new(&secret, suite, HELLO).expect("random bytes");
    let (said, heard) = (*offer.bytes(), changed(offer.bytes(), changes.next()));
    let answered = Answer::new(&secret, suite, HELLO, &heard, REPLY);
    assert_eq!(answered.is_ok(), said == heard);
    let Ok(Answer { bytes, keys: mut listener }) = answered else { return };
    let heard = changed(&bytes, changes.next());
    let finished = offer.finish(REPLY, &heard);
    assert_eq!(finished.is_ok(), bytes == heard);
    let Ok(mut connector) = finished else { return };

    let mut sent = Vec::new();
    let plain = &data[..data.len().min(100)];
    connector.sealer.seal(plain, &mut sent).expect("the cipher works");
    let mut arrived = sent.clone();
    for change in changes {
        change_bytes(&mut arrived, change);
    }
    let is_whole = Opener::is_whole(&arrived);
    match listener.opener.open(&mut arrived.clone()) {
        Ok(Some(opened)) => {
            assert_eq!((arrived, opened.bytes), (sent.clone(), sent.len()), "an unnoticed change");
            assert!(listener.opener.open(&mut sent).is_err(), "a record opened twice");
        }
        // Nothing was sent, or a longer record is awaited.
        Ok(None) => assert!(sent.is_empty() || !is_whole),
        Err(_) => assert_ne!(arrived, sent, "an error without a cause"),
    }
}

fn changed<const N: usize>(bytes: &[u8; N], change: Option<&[u8]>) -> [u8; N] {
    let mut bytes = *bytes;
    change_bytes(&mut bytes, change.unwrap_or_default());
    bytes
}

fn change_bytes(bytes: &mut [u8], change: &[u8]) {
    for pair in change.chunks_exact(2) {
        if let Some(at) = usize::from(pair[0]).checked_rem(bytes.len()) {
            bytes[at] = bytes[at].wrapping_add(pair[1]);
        }
    }
}
