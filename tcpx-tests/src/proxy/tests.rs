use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn frame(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    frame::append(&mut whole, kind, |out| out.extend_from_slice(body));
    whole
}

fn joined() -> (LinkProxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = LinkProxy::start(listener.local_addr().unwrap());
    let left = TcpStream::connect(proxy.address()).unwrap();
    let right = listener.accept().unwrap().0;
    (proxy, left, right)
}

#[test]
fn a_frame_is_held_and_then_passes_with_all_behind_it() {
    let (proxy, mut left, mut right) = joined();
    proxy.hold(Direction::ToListener, 2);
    let wire = [frame(1, b"a"), frame(2, b"bc"), frame(3, b"")].concat();
    left.write_all(&wire).unwrap();
    assert!(proxy.wait_until_held(PATIENCE));
    let mut read = vec![0; wire.len()];
    right.read_exact(&mut read[..9]).unwrap();
    right.set_nonblocking(true).unwrap();
    assert_eq!(right.read(&mut read[9..]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    right.set_nonblocking(false).unwrap();
    // The other direction is not concerned.
    right.write_all(&frame(2, b"")).unwrap();
    left.read_exact(&mut [0; 8]).unwrap();
    proxy.release();
    right.read_exact(&mut read[9..]).unwrap();
    assert_eq!(read, wire);
    assert_eq!(proxy.passed(Direction::ToListener, 2), [frame(2, b"bc")]);
}

#[test]
fn a_link_chunk_passes_with_its_bytes() {
    let (proxy, mut left, mut right) = joined();
    let part = [frame(kind::LINK_CHUNK, &[1, 2, 5, 0, 0, 0]), b"12345".to_vec()].concat();
    let wire = [&part[..], &frame(3, b"x")].concat();
    left.write_all(&wire).unwrap();
    let mut read = vec![0; wire.len()];
    right.read_exact(&mut read).unwrap();
    assert_eq!(read, wire);
    assert_eq!(proxy.passed(Direction::ToListener, kind::LINK_CHUNK), [part]);
    assert_eq!(proxy.passed(Direction::ToListener, 3).len(), 1);
}

#[test]
fn withheld_frames_are_stored_and_others_pass() {
    let (proxy, mut left, mut right) = joined();
    proxy.withhold(Direction::ToListener, 2);
    left.write_all(&[frame(1, b"a"), frame(2, b"bc"), frame(3, b"")].concat()).unwrap();
    let mut read = [0; 17];
    right.read_exact(&mut read).unwrap();
    assert_eq!(read[..], [frame(1, b"a"), frame(3, b"")].concat());
    let take = |timeout| proxy.take_withheld(Direction::ToListener, 2, timeout);
    assert_eq!(take(PATIENCE), Some(frame(2, b"bc")));
    assert_eq!(take(Duration::ZERO), None);
}

#[test]
fn a_cut_ends_both_sides_and_so_does_the_end_of_one() {
    let (proxy, mut left, mut right) = joined();
    // A frame that came through says that both streams are known.
    left.write_all(&frame(1, b"")).unwrap();
    right.read_exact(&mut [0; 8]).unwrap();
    proxy.cut();
    assert!(matches!(left.read(&mut [0]), Ok(0) | Err(_)));
    assert!(matches!(right.read(&mut [0]), Ok(0) | Err(_)));
    let (_proxy, left, mut right) = joined();
    drop(left);
    assert_eq!(right.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_tampered_frame_passes_changed_and_others_unchanged() {
    let [a, b, c] = [frame(1, b"aaaa"), frame(2, b"bbbb"), frame(3, b"cccc")];
    for what in Tampering::ALL {
        let (proxy, mut left, mut right) = joined();
        proxy.tamper(Direction::ToListener, 2, what);
        left.write_all(&[&a[..], &b, &c].concat()).unwrap();
        left.shutdown(Shutdown::Write).unwrap();
        let mut read = Vec::new();
        right.read_to_end(&mut read).unwrap();
        let mut flipped = b.clone();
        flipped[6] ^= 1;
        let expected = match what {
            Tampering::Flip => [&a[..], &flipped, &c].concat(),
            Tampering::Cut => [&a[..], &b[..11], &c].concat(),
            Tampering::Drop => [&a[..], &c].concat(),
            Tampering::Repeat => [&a[..], &b, &b, &c].concat(),
            Tampering::Swap => [&a[..], &c, &b].concat(),
        };
        assert_eq!(read, expected, "{what:?}");
        assert!(proxy.wait_until_tampered(PATIENCE));
    }
}

#[test]
fn records_follow_the_handshake() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = LinkProxy::of_records(listener.local_addr().unwrap());
    let mut left = TcpStream::connect(proxy.address()).unwrap();
    let mut right = listener.accept().unwrap().0;
    let record = |byte| [&[23, 3, 3, 0, 20][..], &[byte; 20]].concat();
    let wire = [frame(kind::TLS, b"hello"), record(1), record(2)].concat();
    proxy.tamper(Direction::ToListener, kind::RECORD, Tampering::Drop);
    left.write_all(&wire).unwrap();
    left.shutdown(Shutdown::Write).unwrap();
    let mut read = Vec::new();
    right.read_to_end(&mut read).unwrap();
    assert_eq!(read, [frame(kind::TLS, b"hello"), record(2)].concat());
    let passed = proxy.passed(Direction::ToListener, kind::RECORD);
    assert_eq!(passed, [record(1), record(2)]);
}
