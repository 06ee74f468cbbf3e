//! What other groups, and sessions outside groups, are called by all sessions of a group: by the
//! name under which their connection info was loaded, or else by the one that they give themselves.
//! Pure.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tcpx_sys::printable;

use crate::control::conn_info::{ConnInfo, SessionId};
use crate::control::introduction::Introduction;
use crate::types::MAX_NAME_BYTES;
use crate::types::device::{Device, LONGEST_SUFFIX};

/// Most names of those whose connection info was not loaded. Of more, the oldest are forgotten.
const MOST_STRANGERS: usize = 4096;

/// The names, shared by the sessions of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupNames(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    /// By the name that the program gave.
    loaded: HashMap<String, ConnInfo>,
    strangers: HashMap<SessionId, String>,
    /// The oldest first.
    order: VecDeque<SessionId>,
    made_up: u64,
}

impl GroupNames {
    /// This connection info leads to the group of this name.
    pub(crate) fn load(&self, name: &str, info: ConnInfo) {
        let mut names = self.names();
        let group = Device::Host.session_of(info.session);
        names.strangers.remove(&group);
        names.order.retain(|stranger| *stranger != group);
        names.loaded.insert(name.to_owned(), info);
    }

    /// How the session of a device is reached, of the group of this name.
    pub(crate) fn info(&self, name: &str, device: Device) -> Option<ConnInfo> {
        let info = self.names().loaded.get(name)?.clone();
        Some(ConnInfo { session: device.session_of(info.session), ..info })
    }

    /// The name of a session that has come in.
    pub(crate) fn of(&self, introduction: &Introduction) -> String {
        let session = introduction.session();
        let device = Device::of_session(session);
        let group = Device::Host.session_of(*session);
        let mut names = self.names();
        let is_it = |info: &ConnInfo| {
            Device::Host.session_of(info.session) == group
                && introduction.is_of(&ConnInfo { session: *session, ..info.clone() })
        };
        let loaded = names.loaded.iter().find(|(_, info)| is_it(info)).map(|(name, _)| name);
        let name = loaded.or_else(|| names.strangers.get(&group)).cloned();
        let name = name.unwrap_or_else(|| names.add(group, &introduction.proven.hello.name));
        device.name_in(&name)
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    /// Names a stranger: as it calls itself, if that is a name and nobody else has it.
    fn add(&mut self, group: SessionId, given: &str) -> String {
        let is_name = !given.is_empty()
            && given.len() + LONGEST_SUFFIX <= MAX_NAME_BYTES
            && Device::group_name(given) == given
            && printable(given) == given;
        let mut name = given.to_owned();
        while !is_name && name == given || self.is_taken(&name) {
            self.made_up += 1;
            name = format!("peer-{}", self.made_up);
        }
        if self.order.len() == MOST_STRANGERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.strangers.remove(&oldest);
        }
        self.order.push_back(group);
        self.strangers.insert(group, name.clone());
        name
    }

    fn is_taken(&self, name: &str) -> bool {
        self.loaded.contains_key(name) || self.strangers.values().any(|taken| taken == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::conn_info::Secret;
    use crate::control::hello::tests::sample_hello;
    use crate::control::hello::{Hello, Role};

    const LISTENERS: Secret = Secret([3; 32]);
    const OWN: Secret = Secret([5; 32]);

    /// The session of a device of group `group`, which calls itself `name`, vouched for with `own`.
    fn session(group: u8, device: Device, name: &str, own: &Secret) -> Introduction {
        let session = device.session_of([group; 16]);
        let hello = Hello { session, name: name.to_owned(), ..sample_hello() };
        Introduction::new(hello.prove(Role::Connector, &[9; 32], &LISTENERS), own)
    }

    #[test]
    fn all_sessions_of_a_group_have_its_name() {
        let names = GroupNames::default();
        for (group, given, name) in [(1, "a", "a"), (2, "a", "peer-1"), (3, "", "peer-2")] {
            for device in [Device::Gpu(2), Device::Host, Device::Gpu(2)] {
                let came = session(group, device, given, &OWN);
                assert_eq!(names.of(&came), device.name_in(name));
            }
        }
        for (group, bad) in [(4, "a/gpu0"), (5, "b\n")] {
            let name = names.of(&session(group, Device::Host, bad, &OWN));
            assert!(name.starts_with("peer-"), "{name}");
        }
    }

    #[test]
    fn whose_way_is_known_has_the_name_that_the_program_gave() {
        let names = GroupNames::default();
        assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), "a");
        let addresses = vec!["10.0.0.1:4000".parse().unwrap()];
        let group = Device::Host.session_of([1; 16]);
        names.load("decode", ConnInfo { session: group, secret: OWN, addresses });
        assert_eq!(names.of(&session(1, Device::Gpu(0), "a", &OWN)), "decode/gpu0");
        let info = names.info("decode", Device::Gpu(0)).expect("it was loaded");
        assert_eq!(info.session, Device::Gpu(0).session_of(group));
        assert!(names.info("a", Device::Host).is_none());
        // Who only knows the group's id does not get its name.
        let pretender = session(1, Device::Gpu(1), "decode", &LISTENERS);
        assert_eq!(names.of(&pretender), "peer-1/gpu1");
    }

    #[test]
    fn strangers_are_forgotten_when_there_are_too_many() {
        let names = GroupNames::default();
        let group = |number: usize| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&number.to_le_bytes());
            id
        };
        let mut names = names.names();
        for number in 0..=MOST_STRANGERS {
            names.add(group(number), &format!("name {number}"));
        }
        assert_eq!((names.order.len(), names.strangers.len()), (MOST_STRANGERS, MOST_STRANGERS));
        assert_eq!(names.strangers.get(&group(0)), None);
        assert_eq!(names.strangers[&group(1)], "name 1");
    }
}
