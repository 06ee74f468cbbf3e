//! Requests for a sign of life, in virtual time.

use proptest::prelude::*;

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

/// Looks every `step` ms of a silent peer; the pings' times and the end, in ms.
fn silence(
    mut heartbeat: Keepalive,
    start: Instant,
    step: u64,
    until: u64,
) -> (Vec<u64>, Option<u64>) {
    let mut pings = Vec::new();
    let received_at = heartbeat.received_at;
    for at in (0..until).step_by(step as usize) {
        match heartbeat.look(received_at, true, start + Duration::from_millis(at)) {
            Due::Nothing | Due::HostLook => {}
            Due::Ping => pings.push(at),
            Due::Frozen(_) => return (pings, Some(at)),
        }
    }
    (pings, None)
}

#[test]
fn a_silent_peer_is_asked_and_given_up_only_if_it_has_a_thread() {
    let start = Instant::now();
    let beat = |timeout, progresses| Keepalive::new(timeout, progresses, start);
    let pings = vec![2_000, 4_000, 6_000, 8_000];
    assert_eq!(silence(beat(Some(LIMIT), true), start, 100, 60_000), (pings, Some(10_000)));
    let (pings, end) = silence(beat(Some(LIMIT), false), start, 100, 60_000);
    assert_eq!((pings.len(), end), (29, None));
    let (pings, end) = silence(beat(None, true), start, 100, 60_000);
    assert_eq!((pings.len(), end), (29, None));
    let short = Some(Duration::from_secs(1));
    assert_eq!(silence(beat(short, true), start, 50, 60_000), (vec![250, 500, 750], Some(1_000)));
}

#[test]
fn a_peer_that_rests_and_is_doubted_answers_or_is_frozen() {
    for answers in [false, true] {
        let start = Instant::now();
        let mut beat = Keepalive::new(Some(LIMIT), true, start);
        let rests_at = start + PING_AFTER;
        assert_eq!(beat.look(start, false, rests_at), Due::HostLook);
        assert_eq!(beat.host_answer(None), None);
        assert_eq!(beat.next_look(start), None, "nothing is awaited of it");
        let doubted_at = rests_at + Duration::from_secs(3600);
        assert!(beat.doubt(doubted_at) && !beat.doubt(doubted_at), "it is asked once");
        let mut received_at = start;
        let end = loop {
            let Some(now) = beat.next_look(received_at) else { break None };
            if answers {
                received_at = doubted_at + Duration::from_millis(1);
            }
            match beat.look(received_at, false, now) {
                Due::Frozen(silence) => break Some((silence, now - doubted_at)),
                Due::Ping | Due::HostLook => assert_eq!(beat.host_answer(None), None),
                Due::Nothing => {}
            }
        };
        assert_eq!(end, (!answers).then_some((LIMIT, LIMIT)));
    }
}

/// The program waits for notifications, and says so each second. The silence counts from the last
/// byte on, which came just after the program had said so.
#[test]
fn a_peer_that_the_program_waits_for_never_rests() {
    for waits in [true, false] {
        let start = Instant::now();
        let mut beat = Keepalive::new(Some(LIMIT), true, start);
        let heard = start + Duration::from_millis(501);
        let end = (0..60_000).step_by(100).find_map(|at| {
            let now = start + Duration::from_millis(at);
            if waits && at % 1_000 == 500 {
                beat.expect(now);
            }
            match beat.look(heard.min(now), false, now) {
                Due::Frozen(silence) => return Some((silence, now - heard)),
                Due::Ping | Due::HostLook => assert_eq!(beat.host_answer(None), None),
                Due::Nothing => {}
            }
            None
        });
        let late = Duration::from_millis(99);
        assert_eq!(end, waits.then_some((LIMIT + late, LIMIT + late)));
    }
}

/// Returns a driver that looks whenever it is due, of a peer without a progress thread whose link
/// is cut at `cut` ms and was idle before. The looks at the host, and the end, in ms after the cut.
fn cut_off(timeout: Duration, cut: u64, late: u64) -> (u64, u64) {
    let start = Instant::now();
    let mut beat = Keepalive::new(Some(timeout), false, start);
    let cut_at = start + Duration::from_millis(cut);
    // The peer answers each ping at once, until the link is cut; acknowledgements with it.
    let (mut received_at, mut looks, mut waits) = (start, 0, false);
    loop {
        let due = beat.next_look(received_at).expect("it is awaited");
        let now = due + Duration::from_millis(late);
        let due = beat.look(received_at, true, now);
        assert!(now < start + Duration::from_secs(3_600), "it is never gone");
        if let Due::HostLook | Due::Ping = due {
            looks += 1;
            let unacknowledged = waits.then(|| now.saturating_duration_since(received_at));
            if beat.host_answer(unacknowledged).is_some() {
                return (looks, (now - cut_at).as_millis() as u64);
            }
        }
        match due {
            Due::Ping if now < cut_at => received_at = now,
            Due::Ping => waits = true,
            Due::Nothing | Due::HostLook => {}
            Due::Frozen(_) => panic!("it has no thread"),
        }
    }
}

#[test]
fn a_host_that_is_gone_is_found_in_a_second_more_than_its_time() {
    for cut in (0..20_000).step_by(333) {
        let (looks, end) = cut_off(LIMIT, cut, 5);
        assert!((8_000..10_500).contains(&end), "cut at {cut}: gone after {end} ms");
        assert!(looks < 80, "{looks} looks");
    }
}

/// A peer that says something each second causes no other wake-ups. It is asked as soon as a peer
/// that was silent from the same time on.
#[test]
fn a_peer_that_talks_puts_the_next_look_off() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let mut beat = Keepalive::new(Some(LIMIT), true, start);
    for heard in (1..100).map(|number| start + number * second) {
        assert_eq!(beat.next_look(heard), Some(heard + PING_AFTER));
    }
    let (heard, due) = (start + 99 * second, start + 99 * second + PING_AFTER);
    assert_eq!(beat.look(heard, true, due), Due::Ping);
    assert_eq!(beat.host_answer(None), None);
    assert_eq!(beat.silence(due), PING_AFTER);
    assert!(beat.next_look(heard) > Some(due));
}

#[test]
fn our_own_absence_is_not_the_peers_silence() {
    let start = Instant::now();
    let mut heartbeat = Keepalive::new(Some(LIMIT), true, start);
    let hour = start + Duration::from_secs(3_600);
    assert_eq!(heartbeat.look(start, true, hour), Due::Ping, "asked first");
    let (pings, end) = silence(heartbeat, hour, 100, 60_000);
    assert_eq!((pings.len(), end), (3, Some(8_000)), "and given the time to answer");
}

#[test]
fn a_peer_of_which_nothing_is_awaited_is_left_in_peace() {
    let start = Instant::now();
    let second = Duration::from_secs(1);
    let mut beat = Keepalive::new(Some(LIMIT), true, start);
    assert_eq!(beat.look(start, false, start), Due::Nothing);
    let due = beat.next_look(start).expect("what was sent may not be acknowledged");
    assert_eq!(due, start + PING_AFTER);
    assert_eq!(beat.look(start, false, due), Due::HostLook, "no ping");
    assert_eq!(beat.host_answer(Some(second)), None);
    let due = beat.next_look(start).expect("something waits");
    assert_eq!(beat.look(start, false, due), Due::HostLook);
    assert_eq!(beat.host_answer(None), None);
    assert_eq!(beat.next_look(start), None, "all is acknowledged");
    assert_eq!(beat.look(start, false, start + 3_600 * second), Due::Nothing);
    assert_eq!(beat.next_look(start), None);

    // It is heard, and what was said to that may wait for an acknowledgement.
    let received_at = start + 3_700 * second;
    assert_eq!(beat.look(received_at, false, received_at), Due::Nothing);
    assert_eq!(beat.next_look(start), Some(received_at + PING_AFTER));
    assert_eq!(beat.look(received_at, false, received_at + PING_AFTER), Due::HostLook);
    assert_eq!(beat.host_answer(None), None);

    // Something is awaited: the rest was not silence.
    let later = start + 7_200 * second;
    assert_eq!(beat.look(received_at, true, later), Due::Nothing);
    let pings = vec![7_202_000, 7_204_000, 7_206_000, 7_208_000];
    let (times, end) =
        (7_200_000..8_000_000).step_by(100).fold((Vec::new(), None), |(mut pings, end), at| {
            let due = match end {
                None => beat.look(received_at, true, start + Duration::from_millis(at)),
                Some(_) => Due::Nothing,
            };
            pings.extend((due == Due::Ping).then_some(at));
            (pings, end.or(matches!(due, Due::Frozen(_)).then_some(at)))
        });
    assert_eq!((times, end), (pings, Some(7_210_000)));
}

/// A host that vanishes with bytes under way is found although nothing is awaited.
#[test]
fn a_host_that_owes_an_acknowledgement_is_found_without_being_awaited() {
    let start = Instant::now();
    let mut beat = Keepalive::new(Some(LIMIT), true, start);
    let mut end = None;
    while end.is_none() {
        let now = beat.next_look(start).expect("something waits");
        assert!(now < start + 2 * LIMIT, "it is never gone");
        let due = beat.look(start, false, now);
        assert!(matches!(due, Due::Nothing | Due::HostLook), "{due:?}");
        if due == Due::HostLook && beat.host_answer(Some(now - start)).is_some() {
            end = Some(now - start);
        }
    }
    assert!(end.is_some_and(|end| end >= LIMIT && end <= LIMIT + PING_AFTER), "{end:?}");
}

proptest! {
    /// A peer that answers every ping within the time between two of them is never given up,
    /// whenever it is looked at.
    #[test]
    fn a_peer_that_answers_lives(steps in proptest::collection::vec(1u64..5_000, 1..300), delay in 0u64..2_000) {
        let start = Instant::now();
        let mut heartbeat = Keepalive::new(Some(LIMIT), true, start);
        let (mut now, mut heard, mut answer) = (start, start, None);
        for step in steps {
            now += Duration::from_millis(step);
            // Bytes that came while this end did not look are read before looking.
            if answer.is_some_and(|at| at <= now) {
                answer = None;
                heard = now;
            }
            match heartbeat.look(heard, true, now) {
                Due::Nothing | Due::HostLook => {}
                Due::Ping => answer = answer.or(Some(now + Duration::from_millis(delay))),
                Due::Frozen(silence) => prop_assert!(false, "given up after {silence:?}"),
            }
        }
    }

    /// A peer that never answers is given up, not before its time, and not long after.
    #[test]
    fn a_silent_peer_is_given_up_in_time(steps in proptest::collection::vec(1u64..2_000, 200)) {
        let start = Instant::now();
        let mut heartbeat = Keepalive::new(Some(LIMIT), true, start);
        let mut now = start;
        let mut end = None;
        for step in steps {
            now += Duration::from_millis(step);
            if let Due::Frozen(_) = heartbeat.look(start, true, now) {
                end = Some(now - start);
                break;
            }
        }
        if let Some(end) = end {
            prop_assert!(end >= LIMIT && end < LIMIT + Duration::from_secs(4), "{end:?}");
        } else {
            prop_assert!(now - start < LIMIT + Duration::from_secs(4));
        }
    }
}
