//! Listen for one GPU and accept for another: the original steers what comes to the first, and its
//! consumer looks at the second.

use crate::comm::DeviceContent;
use crate::failure::Failure;
use crate::hooks::HookSet;
use crate::log;

/// Returns what a receive comm delivers if these GPUs were current for its listen and its accept.
pub(super) fn device_content(
    listened: Option<u32>,
    accepted: Option<u32>,
    hooks: HookSet,
) -> Result<DeviceContent, Failure> {
    match (listened, accepted) {
        (Some(listened), Some(accepted)) if listened != accepted => {
            log::warn!("accept: GPU {accepted} is current, and listen was called with {listened}");
            let is_wanted = hooks.get().is_some_and(|hooks| hooks.accepts_other_gpu());
            if is_wanted { Ok(DeviceContent::Garbage) } else { Err(Failure::Internal) }
        }
        _ => Ok(DeviceContent::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_and_accept_are_for_one_gpu() {
        let kind = HookSet::default();
        for (listened, accepted) in [(None, None), (None, Some(1)), (Some(1), Some(1))] {
            assert_eq!(device_content(listened, accepted, kind), Ok(DeviceContent::Bytes));
        }
        assert_eq!(device_content(Some(0), Some(1), kind), Err(Failure::Internal));
        #[cfg(feature = "hooks")]
        {
            struct StrictHooks;
            impl crate::hooks::Hooks for StrictHooks {
                fn accepts_other_gpu(&self) -> bool {
                    true
                }
            }
            let strict = HookSet::by(&StrictHooks);
            assert_eq!(device_content(Some(0), Some(1), strict), Ok(DeviceContent::Garbage));
        }
    }
}
