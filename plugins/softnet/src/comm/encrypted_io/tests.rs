//! Tests of encrypted bytes over pairs of sockets.

use std::io::Write;
use std::net::TcpListener;

use tcpx_seal::secret::TrafficSecret;
use tcpx_seal::suite::Suite;

use super::*;
use crate::memory::Piece;

struct Ends {
    out: EncryptedOut,
    input: EncryptedIn,
    sockets: [TcpStream; 2],
    /// Whether the places are memory that nothing else reads.
    unseen: bool,
}

impl Ends {
    fn new(unseen: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let receiver = listener.accept().unwrap().0;
        for socket in [&sender, &receiver] {
            socket.set_nonblocking(true).unwrap();
        }
        let secret = || TrafficSecret::new([3; 32]);
        let out = EncryptedOut::new(Sealer::new(Suite::fastest(), secret()));
        let input = EncryptedIn::new(Opener::new(Suite::fastest(), secret()));
        Self { out, input, sockets: [sender, receiver], unseen }
    }

    fn send(&mut self, bytes: &[u8]) -> IoOutcome {
        let mut list = IoList::new(bytes.len());
        list.push_bytes(bytes);
        self.out.send(&self.sockets[0], &list, libc::MSG_NOSIGNAL)
    }

    fn receive(&mut self, place: &mut [u8]) -> IoOutcome {
        let mut list = IoList::new(place.len());
        list.push(Piece::of_slice(place));
        self.input.receive(&self.sockets[1], &list, self.unseen)
    }
}

#[test]
fn a_stream_that_is_longer_than_every_buffer_arrives_whole() {
    [false, true].into_iter().for_each(stream_of_many_buffers);
}

fn stream_of_many_buffers(unseen: bool) {
    let mut ends = Ends::new(unseen);
    let bytes: Vec<u8> = (0..9_000_000u32).map(|i| (i / 7) as u8).collect();
    let mut place = vec![0; bytes.len()];
    let (mut sent, mut came) = (0, 0);
    while came < bytes.len() {
        if sent < bytes.len() {
            match ends.send(&bytes[sent..]) {
                IoOutcome::Bytes(count) => sent += count,
                IoOutcome::Blocked | IoOutcome::Again => {}
                other => panic!("{other:?}"),
            }
        }
        // Places that end anywhere in records.
        let end = bytes.len().min(came + 77_777);
        match ends.receive(&mut place[came..end]) {
            IoOutcome::Bytes(count) => came += count,
            IoOutcome::Blocked | IoOutcome::Again => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(bytes == place);
    assert!(!ends.input.has_bytes());
    assert_eq!((ends.input.buffer.len(), ends.out.buffer.len()), (0, 0), "idle");
}

#[test]
fn records_of_many_pieces_arrive_in_their_order() {
    let mut ends = Ends::new(false);
    let mut bytes: Vec<u8> = (0..100_000u32).map(|i| (i / 3) as u8).collect();
    // Some records are within a piece, and some have several.
    let mut list = IoList::new(usize::MAX);
    for part in bytes.chunks_mut(40_001).flat_map(|part| part.split_at_mut_checked(3_000)) {
        [part.0, part.1].into_iter().for_each(|part| {
            list.push(Piece::of_slice(part));
        });
    }
    let sent = ends.out.send(&ends.sockets[0], &list, libc::MSG_NOSIGNAL);
    assert!(matches!(sent, IoOutcome::Bytes(100_000)), "{sent:?}");
    let (mut place, mut came) = (vec![0; bytes.len()], 0);
    while came < bytes.len() {
        match ends.receive(&mut place[came..]) {
            IoOutcome::Bytes(count) => came += count,
            IoOutcome::Blocked | IoOutcome::Again => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(bytes == place);
}

#[test]
fn no_call_returns_more_bytes_than_it_listed() {
    let mut ends = Ends::new(false);
    let (bytes, mut place) = (vec![7; 1 << 20], vec![0; 1 << 20]);
    // Until the sockets hold no more, and records are left.
    while matches!(ends.send(&bytes), IoOutcome::Bytes(_)) {}
    assert!(ends.out.plain > 10);
    while ends.out.plain > 0 {
        let came = ends.receive(&mut place);
        assert!(matches!(came, IoOutcome::Bytes(_) | IoOutcome::Blocked), "{came:?}");
        match ends.send(&bytes[..10]) {
            IoOutcome::Bytes(count) => assert!(count <= 10, "{count}"),
            outcome => assert!(matches!(outcome, IoOutcome::Blocked), "{outcome:?}"),
        }
    }
}

#[test]
fn what_is_left_of_a_record_counts_as_bytes_that_are_there() {
    let mut ends = Ends::new(false);
    assert!(matches!(ends.send(b"hello"), IoOutcome::Bytes(5)));
    assert!(matches!(ends.send(b"again"), IoOutcome::Bytes(5)));
    let mut place = [0; 2];
    assert!(matches!(ends.receive(&mut place), IoOutcome::Bytes(2)));
    assert!(ends.input.has_bytes());
    let mut rest = [0; 20];
    assert!(matches!(ends.receive(&mut rest), IoOutcome::Bytes(8)));
    assert_eq!((&place, &rest[..8]), (b"he", &b"lloagain"[..]));
    assert!(!ends.input.has_bytes());
    assert!(matches!(ends.receive(&mut rest), IoOutcome::Blocked));
}

#[test]
fn records_are_decrypted_into_places_that_nothing_reads_and_change_nothing_behind_them() {
    let mut ends = Ends::new(true);
    let bytes: Vec<u8> = (0..40_000u32).map(|i| (i / 5) as u8).collect();
    assert!(matches!(ends.send(&bytes), IoOutcome::Bytes(40_000)));
    let mut place = vec![0xaa; 40_100];
    let mut came = 0;
    while came < bytes.len() {
        // The last record has no room for the byte of its kind.
        match ends.receive(&mut place[came..40_000]) {
            IoOutcome::Bytes(count) => came += count,
            IoOutcome::Blocked | IoOutcome::Again => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(bytes == place[..40_000]);
    assert_eq!(place[40_000..], [0xaa; 100]);
    // A whole record came to its place without a copy: the buffer has it encrypted still.
    assert!(matches!(ends.send(&bytes[..100]), IoOutcome::Bytes(100)));
    let mut list = IoList::new(200);
    let mut place = [0; 200];
    list.push(Piece::of_slice(&mut place));
    while ends.input.read(&ends.sockets[1]).is_err() {}
    let arrived = ends.input.buffer.clone();
    assert_eq!(ends.input.place(&list, true).unwrap(), 100);
    assert_eq!(place[..100], bytes[..100]);
    assert!(!arrived[..200].windows(100).any(|window| window == &bytes[..100]));
}

#[test]
fn bytes_that_were_made_up_are_an_error_and_never_placed() {
    [false, true].into_iter().for_each(made_up_bytes);
}

fn made_up_bytes(unseen: bool) {
    let mut ends = Ends::new(unseen);
    ends.sockets[0].write_all(&[23, 3, 3, 0, 20]).unwrap();
    ends.sockets[0].write_all(&[0x55; 20]).unwrap();
    let mut place = [0; 8];
    let outcome = loop {
        match ends.receive(&mut place) {
            IoOutcome::Blocked => {}
            outcome => break outcome,
        }
    };
    let IoOutcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert!(is_tampering(&error), "{error}");
    assert!(error.to_string().contains("does not decrypt"), "{error}");
    assert_eq!(place, [0; 8]);
}

#[test]
fn an_end_in_the_middle_of_a_record_is_the_end_of_the_connection() {
    let mut ends = Ends::new(false);
    ends.sockets[0].write_all(&[23, 3, 3, 0, 20, 1, 2]).unwrap();
    ends.sockets[0].shutdown(std::net::Shutdown::Write).unwrap();
    let mut place = [0; 8];
    let outcome = loop {
        match ends.receive(&mut place) {
            IoOutcome::Blocked => {}
            outcome => break outcome,
        }
    };
    assert!(matches!(outcome, IoOutcome::Closed), "{outcome:?}");
}
