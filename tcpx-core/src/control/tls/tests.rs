//! Tests of both ends of an exchange of keys, without a socket.

use proptest::prelude::*;
use tcpx_protocol::frames::hello::Role;
use tcpx_protocol::frames::inbound::Inbound;

use super::*;

fn key() -> Credentials {
    Credentials::new(&SessionOptions::default()).expect("random bytes")
}

/// Lets two ends speak until they have no more to say. Returns what each has said last, if it was
/// refused.
pub(super) fn converse(
    connector: &mut TlsHandshake,
    listener: &mut TlsHandshake,
    spoil: impl Fn(&mut Vec<u8>),
) -> [Result<(), EncryptionProblem>; 2] {
    let mut outcomes = [Ok(()), Ok(())];
    for _ in 0..10 {
        let mut said = connector.take_output();
        spoil(&mut said);
        for part in said.chunks(100) {
            outcomes[1] = outcomes[1].clone().and_then(|()| listener.read(part));
        }
        for part in listener.take_output().chunks(100) {
            outcomes[0] = outcomes[0].clone().and_then(|()| connector.read(part));
        }
    }
    outcomes
}

#[test]
fn both_ends_come_to_the_same_secrets_and_know_each_other() {
    let [ours, theirs] = [key(), key()];
    let mut connector = connect(&ours, theirs.session(), "theirs").unwrap();
    let mut listener = listen(&theirs).unwrap();
    assert!(!connector.is_done() && !listener.is_done());
    assert_eq!(converse(&mut connector, &mut listener, |_| ()), [Ok(()), Ok(())]);
    assert!(connector.is_done() && listener.is_done());
    let (one, other) = (connector.finish().unwrap(), listener.finish().unwrap());
    let sessions = [&theirs, &ours].map(|it| PeerCredential::SessionKey(it.session()));
    assert_eq!([one.peer, other.peer], sessions);
    assert_eq!(one.nonce, other.nonce);
    assert_eq!(one.channels.bytes(), other.channels.bytes());
    assert_ne!(&one.nonce, one.channels.bytes());
    assert_eq!(one.keys.suite, other.keys.suite);
    assert_eq!(one.keys.suite, Suite::fastest());
    let (mut outgoing, _) = one.keys.into_records(Role::Connector);
    let (_, mut incoming) = other.keys.into_records(Role::Listener);
    let (mut wire, mut arrived) = (Vec::new(), Inbound::default());
    outgoing.append(&mut wire, |queue| queue.extend_from_slice(b"said"));
    outgoing.close(&mut wire).unwrap();
    arrived.room()[..wire.len()].copy_from_slice(&wire);
    arrived.fill(wire.len());
    assert_eq!(incoming.open_next(&mut arrived), Ok(true));
    assert_eq!(incoming.opened().waiting(), b"said");
}

#[test]
fn no_two_connections_have_the_same_secrets() {
    let [ours, theirs] = [key(), key()];
    let secrets = [(); 2].map(|()| {
        let mut connector = connect(&ours, theirs.session(), "theirs").unwrap();
        let mut listener = listen(&theirs).unwrap();
        let _ = converse(&mut connector, &mut listener, |_| ());
        connector.finish().unwrap()
    });
    assert_ne!(secrets[0].nonce, secrets[1].nonce);
    assert_ne!(secrets[0].channels.bytes(), secrets[1].channels.bytes());
    let shown = format!("{secrets:?}");
    assert!(shown.contains("SharedSecret(…)") && shown.contains("TrafficSecret(…)"), "{shown}");
}

#[test]
fn a_connector_takes_no_key_but_the_pinned_one() {
    let [ours, theirs, others] = [key(), key(), key()];
    let mut connector = connect(&ours, theirs.session(), "theirs").unwrap();
    let mut listener = listen(&others).unwrap();
    let [refused, told] = converse(&mut connector, &mut listener, |_| ());
    assert_eq!(refused, Err(EncryptionProblem::WrongKey));
    assert!(matches!(told, Err(EncryptionProblem::Handshake(_))), "{told:?}");
    assert!(connector.finish().is_err() && listener.finish().is_err());
}

#[test]
fn a_device_of_a_session_has_the_sessions_key() {
    use tcpx_protocol::types::memory::Device;
    let [ours, theirs] = [key(), key()];
    let device = Device::Gpu(3).session_of(theirs.session());
    let mut connector = connect(&ours, device, "theirs").unwrap();
    let mut listener = listen(&theirs).unwrap();
    assert_eq!(converse(&mut connector, &mut listener, |_| ()), [Ok(()), Ok(())]);
}

#[test]
fn every_byte_of_the_exchange_counts() {
    let [ours, theirs] = [key(), key()];
    let mut found = 0;
    for at in (0..1500).step_by(61) {
        let mut connector = connect(&ours, theirs.session(), "theirs").unwrap();
        let mut listener = listen(&theirs).unwrap();
        let changed = std::cell::Cell::new(false);
        let outcomes = converse(&mut connector, &mut listener, |said| {
            if let Some(byte) = said.get_mut(at).filter(|_| !changed.replace(true)) {
                *byte ^= 1;
            }
        });
        let is_done = connector.is_done() && listener.is_done();
        let is_found = !is_done || outcomes.iter().any(Result::is_err);
        assert_eq!(is_found, changed.get(), "byte {at}");
        found += usize::from(is_found);
    }
    assert!(found > 10, "{found}");
}

#[test]
fn a_handshake_takes_a_bounded_number_of_bytes() {
    let mut listener = listen(&key()).unwrap();
    // A message of TLS that is announced as long, and comes slowly.
    let header = [22, 3, 1, 64, 0, 1, 0, 255, 255];
    let mut outcome = listener.read(&header);
    let mut said = header.len();
    while outcome.is_ok() && said <= 2 * MAX_HANDSHAKE_BYTES {
        outcome = listener.read(&[0; 1000]);
        said += 1000;
    }
    assert!(matches!(outcome, Err(EncryptionProblem::Handshake(_))), "{outcome:?}");
    assert!(said <= MAX_HANDSHAKE_BYTES + 1000, "{said}");
}

proptest! {
    /// Bytes that no end of TLS has said, behind any number of those that one has.
    #[test]
    fn any_bytes_are_refused_or_waited_for(
        own in 0..3000usize, bytes in proptest::collection::vec(any::<u8>(), 1..300),
    ) {
        let [ours, theirs] = [key(), key()];
        let mut connector = connect(&ours, theirs.session(), "theirs").unwrap();
        let mut listener = listen(&theirs).unwrap();
        let said = connector.take_output();
        let heard = listener.read(&said[..own.min(said.len())]);
        // A connector that has read all of this is done. Chance does not find the last 16 bytes.
        let mut said = listener.take_output();
        said.truncate(said.len().saturating_sub(16));
        let _ = heard.and_then(|()| listener.read(&bytes));
        let _ = connector.read(&said[..own.min(said.len())]).and_then(|()| connector.read(&bytes));
        prop_assert!(!listener.is_done() && !connector.is_done());
        prop_assert!(listener.finish().is_err() && connector.finish().is_err());
    }
}
