//! Who hears of the end of a transfer's rounds at once.

use std::fmt::Debug;

use crate::error::Error;

/// It is told by whoever holds the engine, so it waits for nobody and comes back soon.
pub(crate) trait RoundListener: Debug + Send + Sync {
    /// A round has ended so. The next one may be posted.
    fn round_ended(&self, outcome: Result<(), Error>);
}
