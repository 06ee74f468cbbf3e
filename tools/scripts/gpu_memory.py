"""Memory of GPU 0 by the driver's library, for scripts that compare transports."""

import ctypes


class GpuError(RuntimeError):
    """A call of the driver has failed."""


def driver():
    """Returns the driver's library."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise GpuError(f"there is no driver of a GPU: {error}") from error


class GpuMemory:
    """Bytes of GPU 0 that live as long as the process. The primary context is current in the
    thread that makes them, as in a program of the CUDA runtime."""

    def __init__(self, bytes_):
        self._driver = driver()
        device, context = ctypes.c_int(), ctypes.c_void_p()
        address = ctypes.c_uint64()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(bytes_))
        self.address = address.value

    def _call(self, name, *arguments):
        status = getattr(self._driver, name)(*arguments)
        if status:
            raise GpuError(f"{name} returns {status}")

    def write(self, array):
        """Copies an array of bytes to the beginning of the memory, and waits until it is there."""
        self._copy("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), _place(array), array)

    def read(self, array):
        """Copies the beginning of the memory to an array of bytes."""
        self._copy("cuMemcpyDtoH_v2", _place(array), ctypes.c_uint64(self.address), array)

    def clear(self, bytes_):
        """Sets the first bytes to 0, and waits until they are."""
        self._call("cuMemsetD8_v2", ctypes.c_uint64(self.address), ctypes.c_ubyte(0),
                   ctypes.c_size_t(bytes_))
        self._call("cuCtxSynchronize")

    def _copy(self, name, to, from_, array):
        self._call(name, to, from_, ctypes.c_size_t(array.nbytes))
        # The driver may return before bytes that it has put aside are in place.
        self._call("cuCtxSynchronize")


def _place(array):
    return ctypes.c_void_p(array.ctypes.data)
