//! Two ends of a conversation against each other, without a socket and in virtual time.

mod crossings;
mod driver;
mod interleavings;
mod lists;
mod pair;
mod random;
mod withdrawals;
