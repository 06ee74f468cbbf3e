//! Registry of the objects that handles stand for.
//!
//! A handle is a number with a generation. It is looked up here, and never followed as an address.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use slotmap::{Key, KeyData, SlotMap, new_key_type};
use tcpx_core::{Operation, Session, Transfer};

use crate::failure::Failure;
use crate::status::tcpx_status::{TCPX_ERR_BUSY, TCPX_ERR_HANDLE};

new_key_type! {
    struct HandleKey;
}

/// Object that a program holds a handle to.
pub(crate) enum Object {
    Session(Arc<Session>),
    Transfer(Arc<Transfer>),
    Operation(Arc<Operation>),
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::default);

/// All objects that programs hold handles to.
#[derive(Default)]
struct Registry {
    objects: RwLock<SlotMap<HandleKey, Object>>,
}

/// Kind of object that has handles.
pub(crate) trait HandleType: Sized {
    /// Name of the kind in error texts.
    const KIND: &'static str;
    /// Wraps the object as an entry of the registry.
    fn into_object(self) -> Object;
    /// Returns the object, if it is of this kind.
    fn of(object: &Object) -> Option<&Arc<Self>>;
}

impl HandleType for Session {
    const KIND: &'static str = "session";

    fn into_object(self) -> Object {
        Object::Session(Arc::new(self))
    }

    fn of(object: &Object) -> Option<&Arc<Self>> {
        match object {
            Object::Session(session) => Some(session),
            _ => None,
        }
    }
}

impl HandleType for Transfer {
    const KIND: &'static str = "transfer";

    fn into_object(self) -> Object {
        Object::Transfer(Arc::new(self))
    }

    fn of(object: &Object) -> Option<&Arc<Self>> {
        match object {
            Object::Transfer(transfer) => Some(transfer),
            _ => None,
        }
    }
}

impl HandleType for Operation {
    const KIND: &'static str = "operation";

    fn into_object(self) -> Object {
        Object::Operation(Arc::new(self))
    }

    fn of(object: &Object) -> Option<&Arc<Self>> {
        match object {
            Object::Operation(operation) => Some(operation),
            _ => None,
        }
    }
}

/// Gives an object a handle, which is never 0.
pub(crate) fn add(object: impl HandleType) -> u64 {
    REGISTRY.add(object)
}

/// Returns the object of a handle, kept alive for the length of a call.
pub(crate) fn get<T: HandleType>(handle: u64) -> Result<Arc<T>, Failure> {
    REGISTRY.get(handle)
}

/// Returns the object of a handle, for the call that ends the object. Fails while another call uses
/// the object.
pub(crate) fn get_unused<T: HandleType>(handle: u64) -> Result<Arc<T>, Failure> {
    REGISTRY.get_unused(handle)
}

/// Takes an object out that [`get_unused`] gave, so that dropping it ends it. Fails while another
/// call uses the object.
pub(crate) fn take<T: HandleType>(handle: u64, held: Arc<T>) -> Result<Arc<T>, Failure> {
    REGISTRY.take(handle, held)
}

impl Registry {
    fn add(&self, object: impl HandleType) -> u64 {
        let object = object.into_object();
        self.objects.write().unwrap_or_else(PoisonError::into_inner).insert(object).data().as_ffi()
    }

    fn get<T: HandleType>(&self, handle: u64) -> Result<Arc<T>, Failure> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        find(&objects, handle).map(|(_, object)| Arc::clone(object))
    }

    fn get_unused<T: HandleType>(&self, handle: u64) -> Result<Arc<T>, Failure> {
        // No thread can clone the object while the registry is locked for writing, so its count
        // stays.
        let objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let (_, object) = find::<T>(&objects, handle)?;
        if Arc::strong_count(object) > 1 { Err(busy::<T>()) } else { Ok(Arc::clone(object)) }
    }

    fn take<T: HandleType>(&self, handle: u64, held: Arc<T>) -> Result<Arc<T>, Failure> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let (key, object) = find::<T>(&objects, handle)?;
        // The references of the registry and of the caller.
        if !Arc::ptr_eq(object, &held) || Arc::strong_count(object) > 2 {
            return Err(busy::<T>());
        }
        objects.remove(key);
        Ok(held)
    }
}

fn busy<T: HandleType>() -> Failure {
    Failure::new(TCPX_ERR_BUSY, format!("another thread is inside a call on this {}", T::KIND))
}

fn entry(objects: &SlotMap<HandleKey, Object>, handle: u64) -> Option<(HandleKey, &Object)> {
    let key = HandleKey::from(KeyData::from_ffi(handle));
    // The slot map takes several numbers for one key; a handle is one number.
    objects.get(key).filter(|_| key.data().as_ffi() == handle).map(|object| (key, object))
}

fn find<T: HandleType>(
    objects: &SlotMap<HandleKey, Object>,
    handle: u64,
) -> Result<(HandleKey, &Arc<T>), Failure> {
    let (key, object) = entry(objects, handle).ok_or_else(|| unknown::<T>(handle))?;
    T::of(object).map(|object| (key, object)).ok_or_else(|| {
        Failure::new(TCPX_ERR_HANDLE, format!("handle {handle:#x} is not a {}", T::KIND))
    })
}

fn unknown<T: HandleType>(handle: u64) -> Failure {
    let text = match handle {
        0 => format!("the {} handle is 0", T::KIND),
        _ => format!("handle {handle:#x} is no {}: ended already, or never given out", T::KIND),
    };
    Failure::new(TCPX_ERR_HANDLE, text)
}

#[cfg(test)]
mod tests {
    use tcpx_core::SessionOptions;

    use super::*;

    fn status<T>(result: Result<T, Failure>) -> crate::tcpx_status {
        result.err().map_or(crate::tcpx_status::TCPX_OK, |failure| failure.status)
    }

    // A registry of its own for each test: in the program's one, a made-up handle may be another
    // test's live one.

    fn end<T: HandleType>(registry: &Registry, handle: u64) -> Result<Arc<T>, Failure> {
        registry.get_unused(handle).and_then(|held| registry.take(handle, held))
    }

    #[test]
    fn stale_wrong_and_invented_handles_are_refused() {
        let registry = Registry::default();
        let handle = registry.add(Session::new(SessionOptions::default()).unwrap());
        assert!(registry.get::<Session>(handle).is_ok());
        assert_eq!(status(registry.get::<Transfer>(handle)), TCPX_ERR_HANDLE);
        assert_eq!(status(end::<Transfer>(&registry, handle)), TCPX_ERR_HANDLE);
        for made_up in [0, 1, handle + 1, handle ^ (1 << 32), handle | 1 << 63, u64::MAX] {
            assert_eq!(status(registry.get::<Session>(made_up)), TCPX_ERR_HANDLE, "{made_up:#x}");
        }
        assert!(end::<Session>(&registry, handle).is_ok());
        assert_eq!(status(registry.get::<Session>(handle)), TCPX_ERR_HANDLE);
        assert_eq!(status(end::<Session>(&registry, handle)), TCPX_ERR_HANDLE);

        let next = registry.add(Session::new(SessionOptions::default()).unwrap());
        assert_ne!(next, handle, "a place that is used again has another number");
        assert!(end::<Session>(&registry, next).is_ok());
    }

    #[test]
    fn an_object_in_use_is_not_ended() {
        let registry = Registry::default();
        let handle = registry.add(Session::new(SessionOptions::default()).unwrap());
        let used = registry.get::<Session>(handle).unwrap();
        assert_eq!(status(end::<Session>(&registry, handle)), TCPX_ERR_BUSY);
        drop(used);
        // Another call that begins between the two steps counts as well.
        let held = registry.get_unused::<Session>(handle).unwrap();
        let used = registry.get::<Session>(handle).unwrap();
        assert_eq!(status(registry.take(handle, held)), TCPX_ERR_BUSY);
        drop(used);
        assert!(end::<Session>(&registry, handle).is_ok());
    }
}
