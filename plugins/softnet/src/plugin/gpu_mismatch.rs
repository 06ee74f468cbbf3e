//! Listen for one GPU and accept for another: the original steers what comes to the first, and its
//! consumer looks at the second.

use super::settings::Settings;
use crate::comm::Delivery;
use crate::failure::Failure;
use crate::log;
use crate::quirk::Quirk;

/// What a receive comm delivers whose listen and accept were called with these GPUs current.
pub(super) fn delivery(
    listened: Option<u32>,
    accepted: Option<u32>,
    settings: &Settings,
) -> Result<Delivery, Failure> {
    match (listened, accepted) {
        (Some(listened), Some(accepted)) if listened != accepted => {
            log::warn!("accept: GPU {accepted} is current, and listen was called with {listened}");
            let is_wanted = settings.script.has(Quirk::Gpus);
            if is_wanted { Ok(Delivery::Garbage) } else { Err(Failure::Internal) }
        }
        _ => Ok(Delivery::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_and_accept_are_for_one_gpu() {
        let kind = Settings::default();
        for (listened, accepted) in [(None, None), (None, Some(1)), (Some(1), Some(1))] {
            assert_eq!(delivery(listened, accepted, &kind), Ok(Delivery::Bytes));
        }
        assert_eq!(delivery(Some(0), Some(1), &kind), Err(Failure::Internal));
        #[cfg(feature = "faults")]
        {
            let mut original = Settings::default();
            original.script.original = crate::Quirks::ALL;
            assert_eq!(delivery(Some(0), Some(1), &original), Ok(Delivery::Garbage));
        }
    }
}
