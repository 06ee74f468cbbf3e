//! Processors on which helper threads run.

use std::fs;
use std::str::FromStr;

use crate::cpu_set::CpuSet;
use crate::parse_error::ParseError;

/// On which processors helper threads run. Of the program's own threads the plugin moves none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HelperCpus {
    /// On those of the program.
    #[default]
    Any,
    /// On those of the program that are near the comm's NIC, where the system says which they are
    /// and there are any.
    NearNic,
    /// On these.
    On(CpuSet),
}

impl HelperCpus {
    /// The processors for comms of this interface; `None`: those of the program.
    pub(super) fn of(&self, interface: &str) -> Option<CpuSet> {
        match self {
            Self::Any => None,
            Self::NearNic => {
                // A virtual interface has no such file.
                let file = format!("/sys/class/net/{interface}/device/local_cpulist");
                let near: CpuSet = fs::read_to_string(file).ok()?.trim().parse().ok()?;
                near.and(&CpuSet::of_thread().ok()?)
            }
            Self::On(cpus) => Some(cpus.clone()),
        }
    }
}

impl FromStr for HelperCpus {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "off" => Ok(Self::Any),
            "auto" => Ok(Self::NearNic),
            list => {
                let refused = |_| ParseError::new("auto, off, or processors such as 0-3,8");
                list.parse().map(Self::On).map_err(refused)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_for_every_interface_and_a_virtual_one_is_near_nothing() {
        let of_lo = |text: &str| text.parse::<HelperCpus>().map(|cpus| cpus.of("lo"));
        assert_eq!(of_lo("off"), Ok(None));
        assert_eq!(of_lo("auto"), Ok(None));
        assert_eq!(of_lo("1,5"), Ok("1,5".parse().ok()));
        assert!(of_lo("all").is_err());
    }
}
