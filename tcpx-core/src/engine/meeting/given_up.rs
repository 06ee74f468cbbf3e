//! Hellos that other ends have given up, each for a connection that this end has dialled. Pure.
//!
//! Of two sessions that connect to each other at the same time, one gives up its hello, and says
//! so in its welcome on the connection that stays. The hello may arrive later: even when that
//! connection has ended, and both connect again.

use std::collections::VecDeque;

use tcpx_protocol::frames::hello::Nonce;

/// Maximum number of remembered hellos. Many of them never arrive.
const MAX_GIVEN_UP: usize = 256;

/// Hellos that were given up and have not arrived, by their nonces, the oldest first.
#[derive(Debug, Default)]
pub(super) struct GivenUpHellos(VecDeque<Nonce>);

impl GivenUpHellos {
    /// Adds a hello, instead of the oldest where there are many.
    pub(super) fn add(&mut self, hello: Nonce) {
        if self.0.len() == MAX_GIVEN_UP {
            self.0.pop_front();
        }
        self.0.push_back(hello);
    }

    /// Removes a hello that has arrived. Returns whether it was given up.
    pub(super) fn take(&mut self, hello: &Nonce) -> bool {
        let index = self.0.iter().position(|given_up| given_up == hello);
        index.and_then(|index| self.0.remove(index)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(number: usize) -> Nonce {
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
        nonce
    }

    #[test]
    fn a_hello_is_taken_once() {
        let mut given_up = GivenUpHellos::default();
        given_up.add(hello(1));
        given_up.add(hello(2));
        assert!(!given_up.take(&hello(3)));
        assert_eq!([given_up.take(&hello(1)), given_up.take(&hello(1))], [true, false]);
        assert!(given_up.take(&hello(2)));
    }

    #[test]
    fn of_many_the_oldest_is_forgotten() {
        let mut given_up = GivenUpHellos::default();
        (0..=MAX_GIVEN_UP).for_each(|number| given_up.add(hello(number)));
        assert_eq!(given_up.0.len(), MAX_GIVEN_UP);
        assert_eq!([0, 1, MAX_GIVEN_UP].map(|it| given_up.take(&hello(it))), [false, true, true]);
    }
}
