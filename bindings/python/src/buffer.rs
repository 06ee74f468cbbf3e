#![allow(unsafe_code)]
//! Memory of objects with the buffer protocol: `memoryview`, `bytearray`, numpy arrays, `mmap`.
//!
//! The limited API has these functions from Python 3.11 on. They are declared here, because Python
//! 3.10 exports the same functions with the same struct: PEP 3118 has fixed its members in order.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use pyo3::ffi::PyObject;
use pyo3::prelude::*;

use crate::errors::bad_memory;
use crate::place::{CONTIGUOUS_CURE, check_contiguous};

/// Shape, strides, suboffsets and format, of read-only objects too.
const FULL_READ_ONLY: c_int = 0x11c;

/// `Py_buffer`.
#[repr(C)]
struct RawView {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

unsafe extern "C" {
    fn PyObject_CheckBuffer(object: *mut PyObject) -> c_int;
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut RawView, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawView);
}

/// View of an object's memory. While it lives, the object lives, and does not move its bytes.
pub(crate) struct BufferView(Box<RawView>);

// SAFETY: the view is plain data of the object that it holds. It is released with the interpreter
// attached, which is what its functions ask of a thread.
unsafe impl Send for BufferView {}
// SAFETY: as above; nothing changes the view while it is shared.
unsafe impl Sync for BufferView {}

impl BufferView {
    /// Returns a view of an object; `None` for objects without the buffer protocol.
    ///
    /// # Errors
    /// The object's own error; `BadMemory` for memory that is not contiguous.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        // SAFETY: the pointer is of a live object, and this thread is attached.
        if unsafe { PyObject_CheckBuffer(object.as_ptr()) } == 0 {
            return Ok(None);
        }
        let mut view = Box::new(MaybeUninit::<RawView>::uninit());
        // SAFETY: as above; the function fills the view, or fails and leaves nothing to release.
        let status =
            unsafe { PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), FULL_READ_ONLY) };
        if status != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: the function has succeeded, so it has filled all members.
        let view = Self(unsafe { Box::from_raw(Box::into_raw(view).cast::<RawView>()) });
        view.check()?;
        Ok(Some(view))
    }

    fn check(&self) -> PyResult<()> {
        let view = &*self.0;
        if !view.suboffsets.is_null() {
            let text = "an array whose rows are behind pointers has no one address";
            return Err(bad_memory(text, CONTIGUOUS_CURE));
        }
        let dimensions = usize::try_from(view.ndim).unwrap_or(0);
        if view.shape.is_null() || view.strides.is_null() || dimensions == 0 {
            return Ok(());
        }
        // SAFETY: neither is NULL, and the protocol gives both this many members, which live as
        // long as the view.
        let lists = unsafe {
            [view.shape, view.strides].map(|list| std::slice::from_raw_parts(list, dimensions))
        };
        let [shape, strides] = lists.map(|list| list.iter().map(|it| *it as i64).collect());
        let (shape, strides): (Vec<i64>, Vec<i64>) = (shape, strides);
        check_contiguous(&shape, &strides, view.itemsize.unsigned_abs() as u64)
            .map_err(|text| bad_memory(&text, CONTIGUOUS_CURE))
    }

    /// Returns the address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.0.buf.expose_provenance() as u64
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.len.unsigned_abs() as u64
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.0.readonly != 0
    }
}

impl Drop for BufferView {
    fn drop(&mut self) {
        // Where the interpreter is gone, the object stays as it is.
        let _ = Python::try_attach(|_| {
            // SAFETY: the view was filled by `PyObject_GetBuffer` and is released once, here, with
            // the interpreter attached.
            unsafe { PyBuffer_Release(&raw mut *self.0) };
        });
    }
}
