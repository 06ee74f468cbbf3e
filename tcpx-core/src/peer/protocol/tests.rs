//! Two ends of a conversation against each other, without a socket and in virtual time.

mod acting;
mod bounce;
mod chunk;
mod credit;
mod crossings;
mod driver;
mod gathering;
mod interleavings;
mod lists;
mod messages;
mod pair;
mod post_room;
mod random;
mod sections;
mod setting;
mod withdrawals;
