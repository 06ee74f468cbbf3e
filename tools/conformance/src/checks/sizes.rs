//! Messages of every awkward size, and receives that were posted for another size.
//!
//! § is a section of docs/plugin-contract.md.

use crate::check::checks;
use crate::harness::check_result::{CheckResult, fail, require};
use crate::harness::fixture::Fixture;
use crate::link::values::TestReply;

checks! { Sizes:
    "sizes.bytes_0", "§2.7", exact::<0> => "an empty message takes a request, a slot and a consume";
    "sizes.bytes_1", "§3.7", exact::<1> => "1 byte arrives";
    "sizes.bytes_4095", "§3.7", exact::<4095> => "a page less a byte arrives";
    "sizes.bytes_4096", "§3.7", exact::<4096> => "a page arrives";
    "sizes.bytes_4097", "§3.7", exact::<4097> => "a page and a byte arrive";
    "sizes.bytes_65536", "§3.7", exact::<65_536> => "64 KiB arrive";
    "sizes.bytes_77777", "§3.7", exact::<77_777> => "an odd number of bytes arrives";
    "sizes.bytes_524287", "§3.3", exact::<524_287> => "a chunk less a byte arrives";
    "sizes.bytes_524288", "§3.3", exact::<524_288> => "a whole chunk arrives";
    "sizes.bytes_524289", "§3.3", exact::<524_289> => "a chunk and a byte arrive";
    "sizes.bytes_4194304", "§2.7", exact::<4_194_304> => "4 MiB, the nominal slice, arrive";
    "sizes.sequence", "§2.7", sequence =>
        "messages of all sizes keep their order, empty ones included";
    "sizes.posted_larger", "§2.7", larger =>
        "a shorter message than posted arrives in its own size";
    "sizes.posted_smaller", "§2.7", smaller => "a longer message than posted is whole or an error";
    "sizes.posted_zero", "§2.7", zero => "a message into an empty receive is whole or an error";
}

/// Moves a message of `BYTES` twice: the second gets pages and slots that were in use.
fn exact<const BYTES: u64>(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    pair.transfer(fixture, BYTES, 1)?;
    pair.transfer(fixture, BYTES, 2)
}

fn sequence(fixture: &Fixture<'_>) -> CheckResult {
    const SIZES: [u64; 16] =
        [0, 1, 4096, 0, 0, 65_537, 3, 100_000, 4095, 262_144, 0, 17, 8193, 2, 300_001, 0];
    const PLACE: u64 = 320 * 1024;
    let pair = fixture.pair()?;
    for round in 0..2 {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for (i, bytes) in (0..).zip(SIZES) {
            receives.push(pair.receive(i * PLACE, bytes)?);
            sends.push(pair.send(i * PLACE, bytes, round * 100 + i)?);
        }
        pair.complete_all(fixture, &sends, &receives)?;
        for ((i, bytes), receive) in (0..).zip(SIZES).zip(&receives) {
            pair.check(receive, bytes, round * 100 + i)?;
            pair.consume(receive)?;
        }
    }
    Ok(())
}

fn larger(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    for (seed, sent) in (0..).zip([0, 1, 4097, 100_000]) {
        let receive = pair.receive(0, 400_000)?;
        let send = pair.send(0, sent, seed)?;
        pair.complete(fixture, send, &receive)?;
        pair.check(&receive, sent, seed)?;
        pair.consume(&receive)?;
    }
    Ok(())
}

fn smaller(fixture: &Fixture<'_>) -> CheckResult {
    overlong(fixture, 100, 50_000)
}

fn zero(fixture: &Fixture<'_>) -> CheckResult {
    overlong(fixture, 0, 5000)
}

/// Sends a message that is longer than its receive: the original delivers all of it, a stricter
/// plugin may refuse it.
fn overlong(fixture: &Fixture<'_>, posted: u64, sent: u64) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    let receive = pair.receive(0, posted)?;
    let send = pair.send(0, sent, 4)?;
    let (mut sent_off, mut delivered) = (false, false);
    while !delivered {
        if !sent_off {
            let TestReply { rc, done, .. } = pair.sender.test(send)?;
            // A receiver that refuses the message may take the connection down with it.
            sent_off = rc != 0 || done == 1;
        }
        match pair.receiver.test(receive.request)? {
            TestReply { rc: 0, done: 0, .. } => {}
            TestReply { rc: 0, done: 1, .. } => delivered = true,
            // The plugin reports the error, and may have broken the comm.
            TestReply { rc: 2 | 3, done: 0, .. } => return Ok(()),
            TestReply { rc, done, .. } => {
                return Err(fail(
                    "test is done, or returns 2 or 3",
                    format!("rc {rc}, done {done}"),
                ));
            }
        }
        require(!fixture.has_used(1, 1), "the message arrives or test fails", || {
            "neither at the deadline".to_owned()
        })?;
    }
    pair.check(&receive, sent, 4)?;
    pair.consume(&receive)
}
