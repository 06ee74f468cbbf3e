//! Frames that no correct peer sends. A peer that sends one is thrown out, and does no harm.

use super::frames::{
    WireRange, chunks, forget, keys, link_chunk, list, list_of, ranges, read, stopped, write,
    write_now, write_on_link,
};
use super::target::{HostilePeer, LONG, TargetSetup};

/// The hostile peer's number of a list, and its name of a request.
const LIST: u32 = 1 << 20;
const REQUEST: u64 = 77 << 32 | 5;
const WHOLE: WireRange = (0, 0, LONG);

/// Sends all frames of a breach but the last, which it returns.
type HostileFrames = fn(&HostilePeer) -> Vec<u8>;

fn assert_disconnected(cases: &[(&str, HostileFrames)]) {
    let setup = TargetSetup::new();
    for (index, (case, hostile_frames)) in cases.iter().enumerate() {
        let hostile = setup.hostile(&format!("hostile {index}"));
        let frames = hostile_frames(&hostile);
        hostile.send_frames(&frames);
        setup.assert_disconnected(&hostile, case);
        setup.assert_unharmed(case);
        hostile.end();
    }
    setup.end("breaches");
}

/// A list to write that the target knows.
fn good(hostile: &HostilePeer) -> Vec<u8> {
    list(LIST, true, &hostile.write_key, &[WHOLE])
}

/// Returns the target's number of a write of it that is clear to send.
fn cleared_to_send(hostile: &HostilePeer) -> u64 {
    hostile.send_frames(&good(hostile));
    hostile.begin_write(REQUEST, LIST)
}

#[test]
fn impossible_lists() {
    let other_key = |hostile: &HostilePeer| list(LIST, true, &hostile.write_key, &[(1, 0, LONG)]);
    assert_disconnected(&[
        ("a list sent twice", |hostile| [good(hostile), good(hostile)].concat()),
        ("a list of nothing to read", |_| list_of(LIST, false, (0, 0), 0)),
        ("a list of no keys", |_| list_of(LIST, true, (0, 1), 1)),
        ("more keys than ranges", |_| list_of(LIST, true, (2, 1), 9)),
        ("more ranges than bytes", |_| list_of(LIST, true, (1, 10), 9)),
        ("more ranges than a list may have", |_| list_of(LIST, true, (1, u32::MAX), 1 << 40)),
        ("more bytes than there are", |_| list_of(LIST, true, (1, 1), u64::MAX)),
        ("a second list in the middle of one", |_| {
            [list_of(LIST, true, (1, 2), 9), list_of(LIST + 1, true, (1, 2), 9)].concat()
        }),
        ("more keys than the list gives", |hostile| {
            let both = [hostile.write_key, hostile.read_key];
            [list_of(LIST, true, (1, 2), 9), keys(LIST, &both)].concat()
        }),
        ("ranges before the keys", |_| {
            [list_of(LIST, true, (1, 1), LONG), ranges(LIST, &[WHOLE])].concat()
        }),
        ("more ranges than the list gives", |hostile| {
            let begun = [list_of(LIST, true, (1, 1), LONG), keys(LIST, &[hostile.write_key])];
            [begun.concat(), ranges(LIST, &[WHOLE, WHOLE])].concat()
        }),
        ("ranges of a list that was not begun", |_| ranges(LIST, &[WHOLE])),
        ("ranges of a key that is not there", other_key),
        ("an empty range", |hostile| list(LIST, true, &hostile.write_key, &[(0, 0, 0), WHOLE])),
        ("ranges that do not sum up", |hostile| {
            let begun = [list_of(LIST, true, (1, 1), LONG + 1), keys(LIST, &[hostile.write_key])];
            [begun.concat(), ranges(LIST, &[WHOLE])].concat()
        }),
        ("lengths whose sum wraps", |hostile| {
            let begun = [list_of(LIST, true, (1, 2), LONG), keys(LIST, &[hostile.write_key])];
            [begun.concat(), ranges(LIST, &[(0, 0, u64::MAX), (0, 0, LONG + 1)])].concat()
        }),
        ("a list forgotten that is not known", |_| forget(LIST)),
    ]);
}

#[test]
fn impossible_requests() {
    assert_disconnected(&[
        ("a request of no list", |_| write(REQUEST, LIST)),
        ("a read of a list to write", |hostile| [good(hostile), read(REQUEST, LIST)].concat()),
        ("two requests of one name", |hostile| {
            [good(hostile), write(REQUEST, LIST), write(REQUEST, LIST)].concat()
        }),
        ("fewer bytes than the list has", |hostile| {
            let short = list(LIST, true, &hostile.write_key, &[(0, 0, 64)]);
            [short, write_now(REQUEST, LIST, &[1; 63])].concat()
        }),
        ("a list forgotten with a write of it under way", |hostile| {
            [good(hostile), write(REQUEST, LIST), forget(LIST)].concat()
        }),
        ("one write more than there may be", |hostile| {
            let writes = (0..=1024).flat_map(|request| write(REQUEST + (request << 32), LIST));
            [good(hostile), writes.collect()].concat()
        }),
    ]);
}

#[test]
fn impossible_chunks() {
    assert_disconnected(&[
        ("a chunk that was not cleared to send", |_| chunks(REQUEST, 0, LONG)),
        ("a chunk past the end", |hostile| chunks(cleared_to_send(hostile), 0, LONG + 1)),
        ("a chunk that wraps", |hostile| chunks(cleared_to_send(hostile), 0, u64::MAX)),
        ("a chunk of nothing", |hostile| chunks(cleared_to_send(hostile), 0, 0)),
        ("a chunk that leaves something out", |hostile| {
            chunks(cleared_to_send(hostile), 1, LONG - 1)
        }),
        ("a chunk that comes again", |hostile| {
            let receive = cleared_to_send(hostile);
            [chunks(receive, 0, 65_536), chunks(receive, 0, 65_536)].concat()
        }),
        ("a chunk behind the last one", |hostile| {
            let receive = cleared_to_send(hostile);
            [chunks(receive, 0, LONG), chunks(receive, LONG, 1)].concat()
        }),
        ("stopped twice", |hostile| {
            let receive = cleared_to_send(hostile);
            [chunks(receive, 0, 65_536), stopped(REQUEST), stopped(REQUEST)].concat()
        }),
        ("a chunk after the last frame", |hostile| {
            let receive = cleared_to_send(hostile);
            [stopped(REQUEST), chunks(receive, 0, LONG)].concat()
        }),
        ("stopped when all is scheduled", |hostile| {
            let receive = cleared_to_send(hostile);
            [chunks(receive, 0, LONG), stopped(REQUEST)].concat()
        }),
    ]);
}

/// Returns a write of 9 bytes on the link, 4 of them sent.
fn begun_on_link(hostile: &HostilePeer) -> Vec<u8> {
    let little = list(LIST, true, &hostile.write_key, &[(0, 0, 9)]);
    [little, write_on_link(REQUEST, LIST), link_chunk(REQUEST, &[1; 4])].concat()
}

#[test]
fn impossible_link_chunks() {
    assert_disconnected(&[
        ("a link chunk of nothing", |_| link_chunk(REQUEST, &[1])),
        ("a link chunk of no bytes", |hostile| {
            [begun_on_link(hostile), link_chunk(REQUEST, &[])].concat()
        }),
        ("a link chunk of more than is left", |hostile| {
            [begun_on_link(hostile), link_chunk(REQUEST, &[1; 6])].concat()
        }),
        ("a link chunk longer than any", |hostile| {
            [good(hostile), write_on_link(REQUEST, LIST), link_chunk(REQUEST, &[1; 983_041])]
                .concat()
        }),
        ("a link chunk of what is done", |hostile| {
            [begun_on_link(hostile), link_chunk(REQUEST, &[1; 5]), link_chunk(REQUEST, &[1])]
                .concat()
        }),
        ("a link chunk of what has stopped", |hostile| {
            [begun_on_link(hostile), stopped(REQUEST), link_chunk(REQUEST, &[1])].concat()
        }),
        ("a link chunk of what is written on the channels", |hostile| {
            cleared_to_send(hostile);
            link_chunk(REQUEST, &[1])
        }),
        ("chunks of what is written on the link", |hostile| {
            [begun_on_link(hostile), chunks(1 << 32 | 1, 4, 5)].concat()
        }),
        ("a write on the link of nothing", |_| {
            [list_of(LIST, true, (0, 0), 0), write_on_link(REQUEST, LIST)].concat()
        }),
    ]);
}
