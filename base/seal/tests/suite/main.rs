//! Tests of the public interface.

mod any_exchange;
mod zeroed;

use proptest::prelude::*;

proptest! {
    #[test]
    fn any_change_on_the_way_is_noticed(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        any_exchange::check(&data);
    }
}

#[test]
fn no_change_is_no_error() {
    any_exchange::check(&[]);
    any_exchange::check(&[0; 64]);
}
