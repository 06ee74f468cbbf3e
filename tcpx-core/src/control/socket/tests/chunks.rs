//! Tests of chunks, whose bytes come in several frames and go to their place.

use tcpx_protocol::frames::messages::MessageId;
use tcpx_protocol::types::MAX_EAGER_BYTES;

use super::*;
use crate::control::shared_bytes::Place;

const CHUNK: LinkChunk = LinkChunk { of: MessageId::Write(9), bytes: 300_000 };
/// Sends the chunk with bytes that count up, a message behind it, and the chunk again.
fn send_chunks(link: &mut LinkSocket) -> Vec<u8> {
    let bytes: Vec<u8> = (0..CHUNK.bytes).map(|at| (at % 251) as u8).collect();
    let chunk = Frame::LinkChunk(CHUNK);
    link.send_with_payload(&chunk, [&bytes, b""]);
    link.send_with_payload(&ahead(7, 4), [b"data", b""]);
    link.send_with_payload(&chunk, [&bytes, b""]);
    bytes
}

/// Room of the next read, and its number of pieces. The arguments are the number of reads so far,
/// and how much of the chunk is still to come. `None`: the chunk has no place.
type Cuts = fn(usize, usize) -> Option<(usize, usize)>;

/// Takes what [`send_chunks`] has sent. Returns the bytes of both chunks, and how many of them were
/// read to their place.
fn take_chunks(left: &mut LinkSocket, right: &mut LinkSocket, cuts: Cuts) -> (Vec<u8>, usize) {
    let give_up_at = Instant::now() + PATIENCE;
    let all = 2 * CHUNK.bytes as usize;
    let (mut came, mut placed, mut messages, mut reads) = (Vec::new(), 0, 0, 0);
    while came.len() < all {
        assert!(Instant::now() < give_up_at, "{} bytes came", came.len());
        left.flush().unwrap();
        right.begin_round();
        let next = right.chunk_to_read();
        reads += 1;
        match next.and_then(|chunk| cuts(reads, chunk.bytes as usize)) {
            Some((room, pieces)) => {
                let mut place = vec![0; room];
                let pieces = place.chunks_mut(room.div_ceil(pieces)).map(Place::of);
                let bytes = right.read_chunk(pieces, Instant::now()).unwrap() as usize;
                came.extend_from_slice(&place[..bytes]);
                placed += bytes;
            }
            None => drop(right.read(Instant::now()).unwrap()),
        }
        while let Some(frame) = right.next_of_round::<Frame>().unwrap() {
            match frame {
                Frame::LinkChunk(chunk) => {
                    assert_eq!(chunk.of, CHUNK.of);
                    came.extend_from_slice(right.payload(chunk.bytes as usize));
                }
                message => {
                    assert_eq!(message, ahead(7, 4));
                    assert_eq!((right.payload(4), came.len()), (&b"data"[..], all / 2));
                    messages += 1;
                }
            }
        }
    }
    assert_eq!(messages, 1);
    (came, placed)
}

/// Parts arrive whole, however much is read to its place, and in whatever pieces.
#[test]
fn chunks_come_in_as_many_frames_as_it_takes() {
    let ways: [(&str, Cuts); 5] = [
        ("nowhere", |_, _| None),
        ("whole", |_, bytes| Some((bytes, 1))),
        ("in pieces", |_, bytes| Some((bytes, bytes.min(100)))),
        ("little by little", |_, bytes| Some((bytes.min(1000), 3))),
        ("now and then", |read, bytes| (read % 3 == 0).then_some((bytes, 2))),
    ];
    for (name, cuts) in ways {
        for buffer in [None, Some(16 << 10)] {
            let (mut left, mut right) = pair();
            if let Some(bytes) = buffer {
                SockRef::from(&*left.stream).set_send_buffer_size(bytes).unwrap();
                SockRef::from(&*right.stream).set_recv_buffer_size(bytes).unwrap();
            }
            let bytes = send_chunks(&mut left);
            let (came, placed) = take_chunks(&mut left, &mut right, cuts);
            assert!(came == [&bytes[..], &bytes[..]].concat(), "{name}: other bytes");
            assert_eq!(placed > 0, name != "nowhere", "{name}");
        }
    }
}

/// However much a read took before.
#[test]
fn all_but_the_first_bytes_of_a_chunk_go_to_their_place() {
    const SHORT: LinkChunk = LinkChunk { of: MessageId::Write(9), bytes: 100_000 };
    let (mut left, mut right) = pair();
    let mut place = vec![0; SHORT.bytes as usize];
    // Reads grow while they have no room for more.
    for _ in 0..50 {
        left.send_with_payload(&ahead(7, 60_000), [&[1; 60_000], b""]);
    }
    let mut messages = 0;
    until("all messages come", || {
        left.flush().unwrap();
        right.fill(Instant::now()).unwrap();
        while right.next_frame::<Frame>().unwrap().is_some() {
            messages += 1;
        }
        messages == 50
    });
    for number in 0..5 {
        left.send_with_payload(&Frame::LinkChunk(SHORT), [&[number; SHORT.bytes as usize], b""]);
        let (mut came, mut copied) = (0, 0);
        until("the chunk comes", || {
            left.flush().unwrap();
            right.wake(false);
            right.begin_round();
            match right.chunk_to_read() {
                Some(rest) => {
                    let room = &mut place[came..][..rest.bytes as usize];
                    let read = right.read_chunk([Place::of(room)].into_iter(), Instant::now());
                    came += read.unwrap() as usize;
                }
                None => drop(right.read(Instant::now()).unwrap()),
            }
            while let Some(frame) = right.next_of_round::<Frame>().unwrap() {
                let Frame::LinkChunk(part) = frame else { panic!("{frame:?}") };
                let bytes = part.bytes as usize;
                place[came..][..bytes].copy_from_slice(right.payload(bytes));
                (came, copied) = (came + bytes, copied + bytes);
            }
            came == place.len()
        });
        assert!(place.iter().all(|byte| *byte == number), "other bytes");
        // The first chunk may have been in the storage as a whole.
        assert!(number == 0 || copied <= 4096, "{copied} bytes were copied");
    }
}

/// No byte of a record goes to its place before it has opened.
#[test]
fn chunks_in_records_are_handed_out_and_not_read_to_their_place() {
    let [_, (mut left, mut right)] = pairs();
    assert!(left.room().is_none_or(|room| room <= MAX_EAGER_BYTES.into()));
    let bytes = send_chunks(&mut left);
    let (came, placed) = take_chunks(&mut left, &mut right, |_, bytes| Some((bytes, 1)));
    assert!(came == [&bytes[..], &bytes[..]].concat(), "other bytes");
    assert_eq!(placed, 0);
}

#[test]
fn a_link_that_ends_in_a_chunk_has_ended() {
    let (mut left, mut right) = pair();
    let chunk = Frame::LinkChunk(CHUNK);
    left.send_with_payload(&chunk, [b"begun", b""]);
    drop(left);
    let begun = Frame::LinkChunk(CHUNK.first(5));
    assert_eq!(receive::<Frame>(&mut right), Ok(begun));
    let mut place = [0; 100];
    right.wake(false);
    right.begin_round();
    assert_eq!(right.chunk_to_read(), CHUNK.after(5));
    let ended = right.read_chunk([Place::of(&mut place)].into_iter(), Instant::now());
    assert_eq!(ended, Err(LinkError::Gone(Departure::LinkClosed)));
}
