//! The plugin behind this one.

use tcpx_sys::NcclNetV7;

/// The software plugin's table.
pub(crate) const TABLE: NcclNetV7 = tcpx_softnet::table();

/// Calls a member of the software plugin, which has them all but `regMrDmaBuf`.
macro_rules! inner {
    ($member:ident ( $($argument:expr),* $(,)? )) => {
        match $crate::inner::TABLE.$member {
            Some(function) => function($($argument),*),
            None => tcpx_sys::NcclResult::INTERNAL_ERROR,
        }
    };
}
pub(crate) use inner;
