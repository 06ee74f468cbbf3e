//! Entries of a finished receive.
//!
//! § is a section of docs/plugin-contract.md.

use crate::check::checks;
use crate::harness::check_result::{CheckResult, fail, require};
use crate::harness::comm_pair::{CommPair, PostedReceive};
use crate::harness::fixture::Fixture;
use crate::message::unpack_row::{self, Entry};

checks! { Entries:
    "entries.cover", "§3.3", cover => "entries cover the message exactly, in any order";
    "entries.cover_chunks", "§3.3", cover_chunks => "a message of several chunks is covered, too";
    "entries.content", "§3.4", content => "the bytes behind the entries are those that were sent";
    "entries.pages", "§3.7", pages => "no entry crosses a page of the bounce buffer";
    "entries.region", "§3.4", region => "every entry lies in the mapped bounce buffer";
    "entries.sources_disjoint", "§3.4", disjoint => "unconsumed receives share no bounce bytes";
    "entries.unconsumed_stay", "§3.5", stay => "unconsumed bytes stay as they are";
    "entries.relative", "§3.4", relative =>
        "dst_off counts from the message, wherever it was posted";
    "entries.count", "§1.3", count => "4 MiB fit the 2048 entries of a slot";
}

const SIZES: [u64; 6] = [1, 4097, 65_536, 99_999, 300_001, 524_288];
const PLACE: u64 = 512 * 1024;

/// Moves messages of these sizes until they are done, and consumes none; message i has seed i.
fn finished(
    fixture: &Fixture<'_>,
    pair: &CommPair,
    sizes: &[u64],
) -> CheckResult<Vec<PostedReceive>> {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (i, &bytes) in (0..).zip(sizes) {
        receives.push(pair.receive(i * PLACE, bytes)?);
        sends.push(pair.send(i * PLACE, bytes, i)?);
    }
    pair.complete_all(fixture, &sends, &receives)?;
    Ok(receives)
}

/// Passes `each` the row of a finished message of each size, over enough receives to use every slot
/// twice.
fn for_each_row(
    fixture: &Fixture<'_>,
    mut each: impl FnMut(&CommPair, Vec<Entry>, u64) -> CheckResult,
) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for _ in 0..6 {
        let receives = finished(fixture, &pair, &SIZES)?;
        for (receive, bytes) in receives.iter().zip(SIZES) {
            each(&pair, pair.row(receive)?, bytes)?;
            pair.consume(receive)?;
        }
    }
    Ok(())
}

fn cover(fixture: &Fixture<'_>) -> CheckResult {
    for_each_row(fixture, |_, row, bytes| require_cover(&row, bytes))
}

/// Fails unless the row covers a message of `bytes` exactly.
fn require_cover(row: &[Entry], bytes: u64) -> CheckResult {
    unpack_row::check_cover(row, bytes)
        .map_err(|text| fail(format!("entries for exactly {bytes} bytes"), text))
}

fn cover_chunks(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for (seed, bytes) in (0..).zip([1_048_576, 2_000_003]) {
        let receive = pair.receive(0, bytes)?;
        let send = pair.send(0, bytes, seed)?;
        pair.complete(fixture, send, &receive)?;
        require_cover(&pair.row(&receive)?, bytes)?;
        pair.check(&receive, bytes, seed)?;
        pair.consume(&receive)?;
    }
    Ok(())
}

fn content(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for _ in 0..3 {
        let receives = finished(fixture, &pair, &SIZES)?;
        for ((seed, receive), bytes) in (0..).zip(&receives).zip(SIZES) {
            pair.check(receive, bytes, seed)?;
            pair.consume(receive)?;
        }
    }
    Ok(())
}

fn pages(fixture: &Fixture<'_>) -> CheckResult {
    for_each_row(fixture, |_, row, _| {
        unpack_row::check_pages(&row)
            .map_err(|text| fail("entries within pages of 4096 bytes", text))
    })
}

fn region(fixture: &Fixture<'_>) -> CheckResult {
    for_each_row(fixture, |pair, row, _| {
        let mapped = pair.receiver.mapped_bytes(pair.queue.bounce)?;
        let Some(mapped) = mapped else {
            return Err(fail("a mapped bounce buffer", "an unmapped one"));
        };
        unpack_row::check_region(&row, mapped)
            .map_err(|text| fail("entries inside the bounce buffer", text))
    })
}

fn disjoint(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for _ in 0..3 {
        let receives = finished(fixture, &pair, &SIZES)?;
        let mut live = Vec::new();
        for receive in &receives {
            live.extend(pair.row(receive)?);
        }
        unpack_row::check_sources(&live)
            .map_err(|text| fail("bounce bytes that belong to one receive each", text))?;
        receives.iter().try_for_each(|receive| pair.consume(receive))?;
    }
    Ok(())
}

fn stay(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    let kept = finished(fixture, &pair, &[65_536, 4097])?;
    let rows = [pair.row(&kept[0])?, pair.row(&kept[1])?];
    // Later messages arrive and are not consumed either: they may not touch the earlier ones.
    let later = finished(fixture, &pair, &SIZES)?;
    for (seed, (receive, row)) in (0..).zip(kept.iter().zip(&rows)) {
        let now = pair.row(receive)?;
        require(now == *row, "the row of an unconsumed receive as it was", || {
            format!("{} entries now", now.len())
        })?;
        pair.check(receive, [65_536, 4097][seed as usize], seed)?;
    }
    kept.iter().chain(&later).try_for_each(|receive| pair.consume(receive))
}

fn relative(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for (seed, offset) in (0..).zip([0, 1, 4096, 70_001]) {
        let receive = pair.receive(offset, 9000)?;
        let send = pair.send(0, 9000, seed)?;
        pair.complete(fixture, send, &receive)?;
        require_cover(&pair.row(&receive)?, 9000)?;
        pair.check(&receive, 9000, seed)?;
        pair.consume(&receive)?;
    }
    Ok(())
}

fn count(fixture: &Fixture<'_>) -> CheckResult {
    const SLICE: u64 = tcpx_sys::UNPACK_SLICE_BYTES as u64;
    let pair = fixture.unpack_pair()?;
    let receive = pair.receive(0, SLICE)?;
    let send = pair.send(0, SLICE, 0)?;
    pair.complete(fixture, send, &receive)?;
    let entries = pair.row(&receive)?.len() as u64;
    require(entries >= SLICE / 4096, "an entry per page or more", || format!("{entries} entries"))?;
    pair.consume(&receive)
}
