use std::net::TcpListener;

use proptest::prelude::*;

use super::*;
use crate::rendezvous::message::{Answer, Connected, Request};
use crate::rendezvous::token::token_choice;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Two ends that have greeted each other.
fn pair(timeouts: [Option<Duration>; 2]) -> [RendezvousLink; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let right = listener.accept().unwrap().0;
    let mut left = RendezvousLink::new(left, Budget::new(timeouts[0])).unwrap();
    let mut right = RendezvousLink::new(right, Budget::new(timeouts[1])).unwrap();
    std::thread::scope(|scope| {
        let greeted = scope.spawn(|| left.greet(Role::Client, None));
        right.greet(Role::Server, None).unwrap();
        greeted.join().unwrap().unwrap();
    });
    [left, right]
}

#[test]
fn one_deadline_bounds_the_whole_rendezvous() {
    let [mut left, mut right] = pair([LONG, LONG]);
    left.rendezvous = Some(Deadline::after(Duration::from_millis(20)));
    let silent = left.receive::<Connected>().unwrap_err().to_string();
    assert!(silent.contains("no connected message within 0.02 s"), "{silent}");
    // What comes later is too late, although it comes in time after the message before.
    right.send(&Connected).unwrap();
    let late = left.receive::<Connected>().unwrap_err().to_string();
    assert_eq!(late, silent);
    left.limit(None);
    let Connected = left.receive().unwrap();
}

#[test]
fn one_deadline_bounds_the_whole_command_too() {
    let [mut left, mut right] = pair([LONG, LONG]);
    left.limit(None);
    left.budget = Budget::new(Some(Duration::from_millis(20)));
    for _ in 0..2 {
        let silent = left.receive::<Connected>().unwrap_err().to_string();
        assert!(silent.contains("within 0.015 s (of --timeout 0.02 s)"), "{silent}");
        right.send(&Connected).unwrap();
    }
}

#[test]
fn another_release_is_named_beside_this_one() {
    // Version 5 said no release; a later one may say more.
    let later = [encode(&(99u16, "2.7.1")).unwrap(), vec![1, 2, 3]].concat();
    for (greeting, theirs) in [
        (vec![5], ["tcpx of another release", "version 5 and"]),
        (later, ["tcpx 2.7.1", "version 99 and"]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut link =
            RendezvousLink::new(listener.accept().unwrap().0, Budget::new(LONG)).unwrap();
        let mut bytes = Vec::new();
        frame::append(&mut bytes, Greeting::KIND, |out| out.extend_from_slice(&greeting));
        other.write_all(&bytes).unwrap();
        let text = link.greet(Role::Server, None).unwrap_err().to_string();
        let ours = format!("this end tcpx {RELEASE}");
        for words in [theirs[0], theirs[1], &ours, "install one release on both hosts"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

/// Returns how greeting ends at both ends, the client first.
fn greeted(tokens: [Option<&str>; 2]) -> [Result<(), String>; 2] {
    let tokens = tokens.map(|text| {
        text.map(|text| match token_choice(text) {
            Ok(choice) => choice.token(Role::Server).unwrap(),
            Err(error) => panic!("{error}"),
        })
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    let meet = |stream, role, token: Option<&Token>| {
        let mut link = RendezvousLink::new(stream, Budget::new(LONG)).unwrap();
        let greeted = link.greet(role, token).map_err(|failure| link.exchange_failures(failure));
        greeted.map_err(|failure| failure.to_string())
    };
    std::thread::scope(|scope| {
        let client = scope.spawn(|| meet(client, Role::Client, tokens[0].as_ref()));
        let server = meet(server, Role::Server, tokens[1].as_ref());
        [client.join().unwrap(), server]
    })
}

#[test]
fn only_ends_with_one_token_meet() {
    let (token, other) = (Some("correct-horse-battery"), Some("another-horse-battery"));
    assert_eq!(greeted([None, None]), [Ok(()), Ok(())]);
    assert_eq!(greeted([token, token]), [Ok(()), Ok(())]);
    for (tokens, words) in [
        ([token, other], "has another token"),
        ([None, token], "requires a token"),
        ([token, None], "asks for no token"),
    ] {
        let [client, server] = greeted(tokens);
        assert!(client.unwrap_err().contains(words), "{words}");
        assert!(server.is_err(), "{words}");
    }
}

#[test]
fn the_end_that_failed_first_has_the_reason() {
    let [mut left, mut right] = pair([LONG, LONG]);
    right.send(&Connected).unwrap();
    let first = right.exchange_failures(Failure::Usage("too\nmany channels".into()));
    assert!(matches!(first, Failure::Usage(_)), "{first}");
    let lost = left.unread(ErrorKind::ConnectionReset.into(), "go", left.deadline());
    // The message before the reason is skipped.
    let second = left.exchange_failures(lost).to_string();
    assert_eq!(second, "the other end failed: too many channels");
}

#[test]
fn a_reason_is_sent_even_when_the_deadline_was_the_failure() {
    let [mut left, mut right] = pair([LONG, LONG]);
    left.rendezvous = Some(Deadline::after(Duration::from_millis(50)));
    let silent = left.receive::<Connected>().unwrap_err();
    left.exchange_failures(silent);
    let reason = right.receive::<Connected>().unwrap_err().to_string();
    assert!(reason.contains("the other end failed: "), "{reason}");
    assert!(reason.contains("within 0.05 s"), "{reason}");
}

proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<Request>(&bytes);
        let _ = decode::<Answer>(&bytes);
    }

    #[test]
    fn a_body_has_to_be_used_up(reason in ".{0,20}", more in 1usize..4) {
        let mut body = encode(&Abort(reason.clone())).unwrap();
        prop_assert_eq!(decode::<Abort>(&body).map(|abort| abort.0), Some(reason));
        body.extend(vec![0; more]);
        prop_assert!(decode::<Abort>(&body).is_none());
    }
}
