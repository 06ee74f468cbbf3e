#![allow(unsafe_code)]
//! Memory of tensors that offer DLPack: torch, jax, cupy, and arrays of numpy.
//!
//! The capsule is not consumed but held: its last owner gives the tensor back, by the
//! capsule's own destructor.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};
use tcpx_core::Device;

use crate::errors::bad_memory;
use crate::place::{CONTIGUOUS_CURE, Place, bytes_of, check_contiguous};

const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";
/// Major version of the structs below.
const MAJOR: u32 = 1;
/// Flag of a tensor that must not be written.
const READ_ONLY: u64 = 1;

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned` up to its tensor.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: Tensor,
}

/// Returns the capsule of an object with `__dlpack__`, and the place of its bytes; `None` for an
/// object without. No work of a GPU is waited for.
///
/// # Errors
/// The object's own error; `BadMemory` for a tensor that cannot be moved as it lies.
pub(crate) fn tensor_of<'py>(
    object: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyAny>, Place)>> {
    let Some(method) = object.getattr_opt("__dlpack__")? else { return Ok(None) };
    let py = object.py();
    let (kind, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    let options = PyDict::new(py);
    if kind == CUDA {
        // The program says which stream the memory belongs to, with each operation.
        options.set_item("stream", -1)?;
    }
    options.set_item("max_version", (MAJOR, 0))?;
    let capsule = match method.call((), Some(&options)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            // Producers from before versions do not know the option.
            options.del_item("max_version")?;
            method.call((), Some(&options))?
        }
        answer => answer?,
    };
    let place = place_of(capsule.cast::<PyCapsule>()?)?;
    Ok(Some((capsule, place)))
}

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;

fn place_of(capsule: &Bound<'_, PyCapsule>) -> PyResult<Place> {
    if capsule.is_valid_checked(Some(VERSIONED_NAME)) {
        let pointer = capsule.pointer_checked(Some(VERSIONED_NAME))?.cast::<Versioned>();
        // SAFETY: a capsule of this name holds a pointer to such a struct, which lives as long as
        // the capsule. All versions begin with the version, so that it may be read.
        let versioned = unsafe { pointer.as_ref() };
        if versioned.major != MAJOR {
            let text = format!("DLPack {}.{} is not known", versioned.major, versioned.minor);
            return Err(bad_memory(&text, "use a producer of DLPack 1"));
        }
        return place(&versioned.tensor, versioned.flags & READ_ONLY != 0);
    }
    let pointer = capsule.pointer_checked(Some(NAME))?.cast::<Tensor>();
    // SAFETY: a capsule of this name holds a pointer to a `DLManagedTensor`, which begins with the
    // tensor and lives as long as the capsule.
    place(unsafe { pointer.as_ref() }, false)
}

fn place(tensor: &Tensor, is_read_only: bool) -> PyResult<Place> {
    let device = match (tensor.device_type, u32::try_from(tensor.device_id)) {
        (CPU | CUDA_HOST, _) => Device::Host,
        (CUDA | CUDA_MANAGED, Ok(ordinal)) => Device::Gpu(ordinal),
        (other, _) => {
            let text = format!("memory of DLPack's device type {other} cannot be moved");
            return Err(bad_memory(&text, "copy the tensor to the host, or to a CUDA device"));
        }
    };
    let bits = u64::from(tensor.bits) * u64::from(tensor.lanes);
    if !bits.is_multiple_of(8) {
        let text = format!("elements of {bits} bits are no whole bytes");
        return Err(bad_memory(&text, "view the tensor as bytes (uint8)"));
    }
    let dimensions = usize::try_from(tensor.dimensions).unwrap_or(0);
    let list = |list: *const i64| match list.is_null() || dimensions == 0 {
        true => None,
        // SAFETY: the list is not NULL, and DLPack gives it a member for each dimension.
        false => Some(unsafe { std::slice::from_raw_parts(list, dimensions) }),
    };
    let shape = list(tensor.shape).unwrap_or(&[]);
    let item_bytes = bits / 8;
    if let Some(strides) = list(tensor.strides) {
        // DLPack counts them in elements.
        let strides: Vec<i64> =
            strides.iter().map(|it| it.saturating_mul(item_bytes as i64)).collect();
        check_contiguous(shape, &strides, item_bytes)
            .map_err(|text| bad_memory(&text, CONTIGUOUS_CURE))?;
    }
    let bytes = bytes_of(shape, item_bytes)
        .ok_or_else(|| bad_memory("the tensor is larger than any memory", "check its shape"))?;
    let address = (tensor.data.expose_provenance() as u64).saturating_add(tensor.byte_offset);
    Ok(Place { address, bytes, device, is_read_only })
}
