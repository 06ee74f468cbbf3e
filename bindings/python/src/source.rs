//! Place of the bytes of a Python object, found by the protocols that arrays and tensors offer.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tcpx_core::Device;

use crate::buffer::BufferView;
use crate::dlpack;
use crate::errors::bad_memory;
use crate::place::{CONTIGUOUS_CURE, Place, bytes_of, check_contiguous};

/// Object and its place. While the value lives, the bytes stay where they are.
pub(crate) struct Source {
    pub(crate) place: Place,
    _keeper: Keeper,
}

/// What keeps the bytes in their place.
#[expect(dead_code, reason = "held, not read")]
enum Keeper {
    View(BufferView),
    Object(Py<PyAny>),
}

impl Source {
    /// Finds the bytes of an object: by the buffer protocol, DLPack, or
    /// `__cuda_array_interface__`, in this order. Objects of the last kind do not name their GPU:
    /// without `gpu` the driver knows it.
    ///
    /// # Errors
    /// `TypeError` for an object that offers none of them; `BadMemory` for memory that cannot be
    /// moved as it lies; the object's own error.
    pub(crate) fn of(object: &Bound<'_, PyAny>, gpu: Option<u32>) -> PyResult<Self> {
        if let Some(view) = BufferView::of(object)? {
            let place = Place {
                address: view.address(),
                bytes: view.bytes(),
                device: Device::Host,
                is_read_only: view.is_read_only(),
            };
            return Ok(Self { place, _keeper: Keeper::View(view) });
        }
        if let Some((capsule, place)) = dlpack::tensor_of(object)? {
            return Ok(Self { place, _keeper: Keeper::Object(capsule.unbind()) });
        }
        if let Some(interface) = object.getattr_opt("__cuda_array_interface__")? {
            let place = place_on_gpu(&interface.cast_into::<PyDict>()?, gpu)?;
            return Ok(Self { place, _keeper: Keeper::Object(object.clone().unbind()) });
        }
        let kind = object.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "{kind} has no memory to move: it offers neither the buffer protocol, nor DLPack, nor \
             __cuda_array_interface__"
        )))
    }
}

fn place_on_gpu(interface: &Bound<'_, PyDict>, gpu: Option<u32>) -> PyResult<Place> {
    let member = |name: &str| {
        let missing = || bad_memory(&format!("__cuda_array_interface__ has no {name}"), "");
        interface.get_item(name)?.ok_or_else(missing)
    };
    let (address, is_read_only): (u64, bool) = member("data")?.extract()?;
    let shape: Vec<i64> = member("shape")?.extract()?;
    let kind: String = member("typestr")?.extract()?;
    // As "<f4": byte order, kind, bytes of an element.
    let item_bytes: u64 = kind
        .get(2..)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| bad_memory(&format!("typestr {kind} is not known"), ""))?;
    let strides = interface.get_item("strides")?.filter(|strides| !strides.is_none());
    if let Some(strides) = strides {
        check_contiguous(&shape, &strides.extract::<Vec<i64>>()?, item_bytes)
            .map_err(|text| bad_memory(&text, CONTIGUOUS_CURE))?;
    }
    let bytes = bytes_of(&shape, item_bytes)
        .ok_or_else(|| bad_memory("the array is larger than any memory", "check its shape"))?;
    // Where the driver does not know the memory, GPUs are emulated or the registration fails.
    let ordinal = || tcpx_cuda::ordinal_of(address).ok().flatten().unwrap_or(0);
    Ok(Place { address, bytes, device: Device::Gpu(gpu.unwrap_or_else(ordinal)), is_read_only })
}
