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
fn a_part_passes_with_its_bytes() {
    let (proxy, mut left, mut right) = joined();
    let part = [frame(kind::PART, &[1, 2, 5, 0, 0, 0]), b"12345".to_vec()].concat();
    let wire = [&part[..], &frame(3, b"x")].concat();
    left.write_all(&wire).unwrap();
    let mut read = vec![0; wire.len()];
    right.read_exact(&mut read).unwrap();
    assert_eq!(read, wire);
    assert_eq!(proxy.passed(Direction::ToListener, kind::PART), [part]);
    assert_eq!(proxy.passed(Direction::ToListener, 3).len(), 1);
}

#[test]
fn what_is_withheld_is_kept_and_the_rest_passes() {
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
