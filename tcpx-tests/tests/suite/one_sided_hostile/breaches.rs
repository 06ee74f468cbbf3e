//! Frames that no correct peer sends. A peer that sends one is thrown out, and does no harm.

use super::scene::{LONG, Liar, Scene};
use super::words::{
    WireRange, forget, keys, list, list_of, part, ranges, read, section, stopped, write, write_now,
    write_on_link,
};

/// The liar's number of a list, and its name of a request.
const LIST: u32 = 1 << 20;
const REQUEST: u64 = 77 << 32 | 5;
const WHOLE: WireRange = (0, 0, LONG);

/// Says all that is wrong, but for the last words.
type Lie = fn(&Liar) -> Vec<u8>;

fn assert_thrown_out(cases: &[(&str, Lie)]) {
    let scene = Scene::new();
    for (index, (case, lie)) in cases.iter().enumerate() {
        let liar = scene.liar(&format!("liar {index}"));
        let words = lie(&liar);
        liar.say(&words);
        scene.assert_thrown_out(&liar, case);
        scene.assert_unharmed(case);
        liar.end();
    }
    scene.end("breaches");
}

/// A list to write that the target knows.
fn good(liar: &Liar) -> Vec<u8> {
    list(LIST, true, &liar.write_key, &[WHOLE])
}

/// A write of it that is granted, by the target's name.
fn granted(liar: &Liar) -> u64 {
    liar.say(&good(liar));
    liar.begin_write(REQUEST, LIST)
}

#[test]
fn lists_that_cannot_be() {
    let other_key = |liar: &Liar| list(LIST, true, &liar.write_key, &[(1, 0, LONG)]);
    assert_thrown_out(&[
        ("a list told twice", |liar| [good(liar), good(liar)].concat()),
        ("a list of nothing to read", |_| list_of(LIST, false, (0, 0), 0)),
        ("a list of no keys", |_| list_of(LIST, true, (0, 1), 1)),
        ("more keys than ranges", |_| list_of(LIST, true, (2, 1), 9)),
        ("more ranges than bytes", |_| list_of(LIST, true, (1, 10), 9)),
        ("more ranges than a list may have", |_| list_of(LIST, true, (1, u32::MAX), 1 << 40)),
        ("more bytes than there are", |_| list_of(LIST, true, (1, 1), u64::MAX)),
        ("a second list in the middle of one", |_| {
            [list_of(LIST, true, (1, 2), 9), list_of(LIST + 1, true, (1, 2), 9)].concat()
        }),
        ("more keys than announced", |liar| {
            let both = [liar.write_key, liar.read_key];
            [list_of(LIST, true, (1, 2), 9), keys(LIST, &both)].concat()
        }),
        ("ranges before the keys", |_| {
            [list_of(LIST, true, (1, 1), LONG), ranges(LIST, &[WHOLE])].concat()
        }),
        ("more ranges than announced", |liar| {
            let begun = [list_of(LIST, true, (1, 1), LONG), keys(LIST, &[liar.write_key])];
            [begun.concat(), ranges(LIST, &[WHOLE, WHOLE])].concat()
        }),
        ("ranges of a list that was not begun", |_| ranges(LIST, &[WHOLE])),
        ("ranges of a key that is not there", other_key),
        ("an empty range", |liar| list(LIST, true, &liar.write_key, &[(0, 0, 0), WHOLE])),
        ("ranges that do not sum up", |liar| {
            let begun = [list_of(LIST, true, (1, 1), LONG + 1), keys(LIST, &[liar.write_key])];
            [begun.concat(), ranges(LIST, &[WHOLE])].concat()
        }),
        ("lengths whose sum wraps", |liar| {
            let begun = [list_of(LIST, true, (1, 2), LONG), keys(LIST, &[liar.write_key])];
            [begun.concat(), ranges(LIST, &[(0, 0, u64::MAX), (0, 0, LONG + 1)])].concat()
        }),
        ("a list forgotten that is not known", |_| forget(LIST)),
    ]);
}

#[test]
fn requests_that_cannot_be() {
    assert_thrown_out(&[
        ("a request of no list", |_| write(REQUEST, LIST)),
        ("a read of a list to write", |liar| [good(liar), read(REQUEST, LIST)].concat()),
        ("two requests of one name", |liar| {
            [good(liar), write(REQUEST, LIST), write(REQUEST, LIST)].concat()
        }),
        ("fewer bytes than the list has", |liar| {
            let short = list(LIST, true, &liar.write_key, &[(0, 0, 64)]);
            [short, write_now(REQUEST, LIST, &[1; 63])].concat()
        }),
        ("a list forgotten with a write of it under way", |liar| {
            [good(liar), write(REQUEST, LIST), forget(LIST)].concat()
        }),
        ("one write more than there may be", |liar| {
            let writes = (0..=1024).flat_map(|request| write(REQUEST + (request << 32), LIST));
            [good(liar), writes.collect()].concat()
        }),
    ]);
}

#[test]
fn impossible_chunks() {
    assert_thrown_out(&[
        ("a section of no grant", |_| section(REQUEST, 0, LONG)),
        ("a section past the end", |liar| section(granted(liar), 0, LONG + 1)),
        ("a section that wraps", |liar| section(granted(liar), 0, u64::MAX)),
        ("a section of nothing", |liar| section(granted(liar), 0, 0)),
        ("a section that leaves something out", |liar| section(granted(liar), 1, LONG - 1)),
        ("a section that comes again", |liar| {
            let receive = granted(liar);
            [section(receive, 0, 65_536), section(receive, 0, 65_536)].concat()
        }),
        ("a section behind the last one", |liar| {
            let receive = granted(liar);
            [section(receive, 0, LONG), section(receive, LONG, 1)].concat()
        }),
        ("stopped twice", |liar| {
            let receive = granted(liar);
            [section(receive, 0, 65_536), stopped(REQUEST), stopped(REQUEST)].concat()
        }),
        ("a section after the last word", |liar| {
            let receive = granted(liar);
            [stopped(REQUEST), section(receive, 0, LONG)].concat()
        }),
        ("stopped when all is dealt", |liar| {
            let receive = granted(liar);
            [section(receive, 0, LONG), stopped(REQUEST)].concat()
        }),
    ]);
}

/// Returns a write of 9 bytes on the link, 4 of them sent.
fn begun_on_link(liar: &Liar) -> Vec<u8> {
    let little = list(LIST, true, &liar.write_key, &[(0, 0, 9)]);
    [little, write_on_link(REQUEST, LIST), part(REQUEST, &[1; 4])].concat()
}

#[test]
fn parts_that_cannot_be() {
    assert_thrown_out(&[
        ("a part of nothing", |_| part(REQUEST, &[1])),
        ("a part of no bytes", |liar| [begun_on_link(liar), part(REQUEST, &[])].concat()),
        ("a part of more than is left", |liar| {
            [begun_on_link(liar), part(REQUEST, &[1; 6])].concat()
        }),
        ("a part longer than any", |liar| {
            [good(liar), write_on_link(REQUEST, LIST), part(REQUEST, &[1; 983_041])].concat()
        }),
        ("a part of what is done", |liar| {
            [begun_on_link(liar), part(REQUEST, &[1; 5]), part(REQUEST, &[1])].concat()
        }),
        ("a part of what has stopped", |liar| {
            [begun_on_link(liar), stopped(REQUEST), part(REQUEST, &[1])].concat()
        }),
        ("a part of what is written on the channels", |liar| {
            granted(liar);
            part(REQUEST, &[1])
        }),
        ("chunks of what is written on the link", |liar| {
            [begun_on_link(liar), section(1 << 32 | 1, 4, 5)].concat()
        }),
        ("a write on the link of nothing", |_| {
            [list_of(LIST, true, (0, 0), 0), write_on_link(REQUEST, LIST)].concat()
        }),
    ]);
}
