//! Attacker on the way that does anything to the records of one direction, as bytes say. For
//! properties and for the fuzz target `link_records`.

use tcpx_protocol::frames::hello::Role;
use tcpx_protocol::frames::inbound::Inbound;
use tcpx_protocol::frames::records::{Incoming, LinkKeys, Outgoing, RecordError};
use tcpx_seal::secret::TrafficSecret;
use tcpx_seal::suite::Suite;

/// Makes the keys of a connection.
pub(crate) fn keys(connectors: u8, listeners: u8) -> LinkKeys {
    LinkKeys {
        suite: Suite::Aes256Gcm,
        by_connector: TrafficSecret::new([connectors; 32]),
        by_listener: TrafficSecret::new([listeners; 32]),
    }
}

/// Makes the connector's outgoing end, and the listener's incoming one.
pub(crate) fn ends() -> (Outgoing, Incoming) {
    (keys(1, 2).into_records(Role::Connector).0, keys(1, 2).into_records(Role::Listener).1)
}

/// Queues a payload, and closes the record behind it.
pub(crate) fn close_with(outgoing: &mut Outgoing, wire: &mut Vec<u8>, payload: [&[u8]; 2]) {
    for part in payload {
        outgoing.append_copy(wire, part.len(), |range, queue| {
            queue.extend_from_slice(&part[range]);
        });
    }
    outgoing.close(wire).expect("the cipher works");
}

/// Opens what comes in pieces, until a record is refused. Returns what was opened, and how it
/// ended.
pub(crate) fn open(
    incoming: &mut Incoming,
    pieces: &[&[u8]],
) -> (Vec<u8>, Result<(), RecordError>) {
    let (mut arrived, mut opened) = (Inbound::default(), Vec::new());
    for piece in pieces {
        arrive(&mut arrived, piece);
        loop {
            let outcome = incoming.open_next(&mut arrived);
            opened.extend_from_slice(incoming.opened().waiting());
            let bytes = incoming.opened().waiting().len();
            incoming.opened_mut().take(bytes);
            match outcome {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return (opened, Err(error)),
            }
        }
    }
    (opened, Ok(()))
}

fn arrive(arrived: &mut Inbound, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let room = arrived.room();
        let now = bytes.len().min(room.len());
        room[..now].copy_from_slice(&bytes[..now]);
        arrived.fill(now);
        bytes = &bytes[now..];
    }
}

/// Says what the first half of `script` tells, lets the second half change it on the way, and opens
/// what is left. What comes out must be what was said up to the first change, and nothing else.
///
/// # Panics
/// It is not.
pub(crate) fn check(script: &[u8]) {
    // Bytes that no end has sealed open nothing.
    assert_eq!(open(&mut ends().1, &[script]).0, b"");
    let (says, does) = script.split_at(script.len() / 2);
    let (mut outgoing, mut incoming) = ends();
    let (mut wires, mut said) = (Vec::new(), Vec::new());
    for (number, word) in says.iter().enumerate().take(64) {
        let (wire, body) = say(&mut outgoing, number as u8, *word);
        wires.push(wire);
        said.extend(body);
    }
    let untouched = wires.concat();
    for change in does.chunks_exact(3).take(8) {
        tamper(&mut wires, change[0], change[1], change[2]);
    }
    let wire = wires.concat();
    let half = usize::from(does.first().copied().unwrap_or(0)) % (wire.len() + 1);
    let (opened, outcome) = open(&mut incoming, &[&wire[..half], &wire[half..]]);
    let right = wire.iter().zip(&untouched).take_while(|(a, b)| a == b).count();
    assert!(said.starts_with(&opened), "bytes came out that were not said");
    if right == untouched.len() {
        assert_eq!(opened.len(), said.len(), "what was said did not come out");
        assert!(outcome.is_ok() || wire.len() > right, "what was said was refused");
    } else {
        assert!(opened.len() < said.len(), "a change was not found");
    }
}

/// Says one or several records. Returns them, and their content.
fn say(outgoing: &mut Outgoing, number: u8, word: u8) -> (Vec<u8>, Vec<u8>) {
    let mut wire = Vec::new();
    let frame = vec![number; 1 + usize::from(word >> 2)];
    outgoing.append(&mut wire, |queue| queue.extend_from_slice(&frame));
    let message = vec![word; [0, 1, 900, 65_000][usize::from(word & 3)]];
    close_with(outgoing, &mut wire, [&message, &[number]]);
    (wire, [frame, message, vec![number]].concat())
}

/// Changes one word on its way.
fn tamper(wires: &mut Vec<Vec<u8>>, what: u8, which: u8, position: u8) {
    let Some(last) = wires.len().checked_sub(1) else { return };
    let which = usize::from(which) % wires.len();
    let wire = &mut wires[which];
    let at = usize::from(position) % wire.len().max(1);
    match what % 6 {
        0 => {
            if let Some(byte) = wire.get_mut(at) {
                *byte ^= 1 << (what >> 5);
            }
        }
        1 => drop(wires.remove(which)),
        2 => wires.insert(usize::from(position) % (last + 1), wires[which].clone()),
        3 => wires.swap(which, usize::from(position) % (last + 1)),
        4 => wire.truncate(at),
        _ => wire.insert(at, what),
    }
}
