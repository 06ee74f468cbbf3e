//! The other end as this one sees it: a connection, and a child process if this one started it.

use tcpx_core::Session;

use crate::bootstrap::Link;
use crate::failure::Failure;
use crate::pair::Child;

/// The other end of a command.
#[derive(Debug)]
pub(crate) struct OtherEnd {
    link: Link,
    child: Option<Child>,
}

impl OtherEnd {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, child: None }
    }

    pub(crate) fn with_child(link: Link, child: Child) -> Self {
        Self { link, child: Some(child) }
    }

    /// Does what the two ends do together. Afterwards the session is closed, and on failure each end knows why and
    /// nothing that was started here is left.
    pub(crate) fn together<T>(
        mut self,
        session: Session,
        body: impl FnOnce(&mut Link, &Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let outcome = body(&mut self.link, &session).map_err(|failure| self.tell(failure));
        drop(session);
        drop(self.link);
        match self.child {
            Some(child) => child.conclude(outcome),
            None => outcome,
        }
    }

    /// Lets the two ends know of each other's failure: the one that failed first has the reason.
    fn tell(&mut self, failure: Failure) -> Failure {
        if failure.is_known_to_other_end() {
            return failure;
        }
        if failure.may_be_a_symptom()
            && let Some(reason) = self.link.last_words()
        {
            return Failure::OtherEnd(reason);
        }
        self.link.abort(&failure.one_line());
        failure
    }
}
