//! One entry of the queue, as a program takes it out.

use crate::error::Result;

/// A transfer of which a round has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferCompletion {
    /// What the program said that the transfer is to it.
    pub context: u64,
    /// How many rounds have ended since the last entry of this transfer was taken out. More than 1
    /// where rounds were posted without looking here.
    pub rounds: u64,
    /// Whether all of them ended well, or the first error.
    pub result: Result<()>,
}
