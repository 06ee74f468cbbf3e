//! Two ends of a conversation against each other, without a socket and in virtual time.

mod abandoned;
mod acting;
mod announcing;
mod channels;
mod credit;
mod crossings;
mod driver;
mod exporting;
mod filling;
mod gathering;
mod interleavings;
mod moving;
mod one_sided_breaches;
mod one_sided_crossings;
mod pair;
mod partings;
mod parts;
mod payload;
mod post_room;
mod requests;
mod revocations;
mod round_work;
mod sections;
mod setting;
mod withdrawals;
