//! What a process does wrong, or the hard way, on purpose.

use super::fault::Fault;
use super::shape::Shape;
use crate::parse_error::ParseError;

/// What a process does wrong, or the hard way, so that its consumers are tested.
///
/// ```
/// let mut script = tcpx_softnet::FaultScript::default();
/// script.shape = "fragments,short".parse()?;
/// script.faults = vec!["cut:send.data0@65536".parse()?];
/// # Ok::<(), tcpx_softnet::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FaultScript {
    /// Legal but inconvenient behaviour.
    pub shape: Shape,
    /// What the shape is drawn from: the same seed gives the same run.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl FaultScript {
    /// Checks what a program may have filled in. The error names the first fault that makes no
    /// sense.
    pub(crate) fn check(&self) -> Result<(), (String, ParseError)> {
        match self.faults.iter().find(|fault| !fault.is_valid()) {
            None => Ok(()),
            Some(fault) => Err((format!("{fault:?}"), ParseError::new(Fault::ALLOWED))),
        }
    }
}
