//! Two ends of a conversation against each other, without a socket and in virtual time.

mod abandoned;
mod acting;
mod bounce;
mod chunk;
mod credit;
mod crossings;
mod driver;
mod exporting;
mod gathering;
mod interleavings;
mod lists;
mod messages;
mod moving;
mod notes;
mod one_sided_breaches;
mod one_sided_crossings;
mod pair;
mod partings;
mod parts;
mod payload;
mod post_room;
mod requests;
mod revocations;
mod sections;
mod setting;
mod withdrawals;
