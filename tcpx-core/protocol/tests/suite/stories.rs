//! Peers that are correct for the most part, and so come further than random bytes do.

use proptest::prelude::*;

use crate::any_peer;

/// Lists and requests of a peer so far.
#[derive(Default)]
struct Said {
    bytes: Vec<u8>,
    /// Whether each list is to be written, and its bytes.
    lists: Vec<(bool, u8)>,
    requests: u8,
    /// Bytes of the write that was asked for last.
    asked: u8,
}

impl Said {
    fn say(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Tells ranges of one area, which may leave it, be of none, or be for what the area is not
    /// for.
    fn tell(&mut self, [is_write, key, count, offset, each]: [u8; 5]) {
        let (number, count, each) = (self.lists.len() as u8, 1 + count % 3, 1 + each % 60);
        if number == 4 {
            return;
        }
        self.say(&[0, 0, number, is_write % 2, 0, key % 4, count - 1]);
        (0..count).for_each(|index| self.say(&[0, (offset % 130) + index * (each + 1), each]));
        self.say(&[is_write]);
        self.lists.push((is_write % 2 == 1, count * each));
    }

    fn ask(&mut self, [list, now, cut]: [u8; 3]) {
        let Some((is_write, bytes)) = self.lists.get(usize::from(list) % self.lists.len().max(1))
        else {
            return;
        };
        let (is_write, bytes) = (*is_write, *bytes);
        let (request, list) = (self.requests, list % self.lists.len() as u8);
        self.requests += 1;
        match is_write {
            false => self.say(&[0, 9, 6, request, list, cut, now]),
            true if bytes <= 32 && now % 2 == 0 => self.say(&[0, 9, 5, request, list, bytes, 1]),
            true => {
                self.say(&[0, 9, 4, request, list, 1, 0]);
                self.asked = bytes;
            }
        }
    }

    fn step(&mut self, step: u8, random: [u8; 5]) {
        let [a, b, c, ..] = random;
        match step % 9 {
            0 | 1 => self.tell(random),
            2 | 3 => self.ask([a, b, c]),
            4 => self.say(&[0, 4, 0, 0, 1, 0, self.asked]),
            5 => self.say(&[9, 0, 10, 1, 9, 1, 10, 0, 10, 1]),
            6 => self.say(&[12, (a % 4) * 2]),
            7 => self.say(&[13, a, b % 250, c]),
            _ => self.say(&[14, a, b]),
        }
    }
}

/// A flag, and steps of a peer that is correct for the most part.
type Story = (u8, Vec<(u8, [u8; 5])>);

fn story() -> impl Strategy<Value = Story> {
    (any::<u8>(), proptest::collection::vec(any::<(u8, [u8; 5])>(), 1..40))
}

fn tell((flags, steps): Story) {
    let mut said = Said::default();
    said.say(&[flags]);
    steps.into_iter().for_each(|(step, random)| said.step(step, random));
    any_peer::run(&said.bytes);
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..300)
}

/// A write whose note was kept is refused, and the program takes all its notes.
#[test]
fn a_note_that_was_dropped_is_not_taken() {
    any_peer::run(include_bytes!("../../../../fuzz/seeds/one_sided_target/refused_note_taken"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_peer_reaches_more_than_is_exported(story in story()) {
        tell(story);
    }

    #[test]
    fn any_bytes_are_borne(bytes in any_bytes()) {
        any_peer::run(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    #[ignore = "deep: 5,000 stories"]
    fn no_peer_reaches_more_than_is_exported_in_many_stories(story in story()) {
        tell(story);
    }

    #[test]
    #[ignore = "deep: 5,000 inputs"]
    fn any_of_many_bytes_are_borne(bytes in any_bytes()) {
        any_peer::run(&bytes);
    }
}
