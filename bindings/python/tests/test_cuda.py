"""Memory of GPUs, by the driver alone: neither torch nor cupy is needed."""

import asyncio
import ctypes

import pytest

import tcpx
from conftest import PATIENCE


class Driver:
    """CUDA's driver, with the primary context of GPU 0 current on this thread."""

    def __init__(self):
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            pytest.skip("there is no CUDA driver")
        if self._library.cuInit(0) != 0:
            pytest.skip("there is no GPU")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        assert status == 0, f"{name} returned {status}"


class CudaArray:
    """Bytes on GPU 0, which offer `__cuda_array_interface__`."""

    def __init__(self, driver, data):
        self._driver, self.nbytes, address = driver, len(data), ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(self.nbytes))
        self._address = address
        driver.call("cuMemcpyHtoD_v2", address, bytes(data), ctypes.c_size_t(self.nbytes))
        self.__cuda_array_interface__ = {
            "data": (address.value, False),
            "shape": (self.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 3,
        }

    def tobytes(self):
        data = ctypes.create_string_buffer(self.nbytes)
        self._driver.call("cuMemcpyDtoH_v2", data, self._address, ctypes.c_size_t(self.nbytes))
        return data.raw

    def free(self):
        self._driver.call("cuMemFree_v2", self._address)


@pytest.fixture(scope="module")
def driver():
    return Driver()


@pytest.mark.parametrize("nbytes", [1, 4097, 1 << 20, (64 << 20) + 3])
def test_every_pair_of_host_and_gpu_moves_bytes(driver, pair, nbytes):
    here, there = pair
    sent = bytes(index % 251 for index in range(1 << 12)) * (nbytes // (1 << 12) + 1)
    sent, zeros = sent[:nbytes], bytes(nbytes)
    makers = (lambda data: CudaArray(driver, data), bytearray)
    for make_local in makers:
        for make_remote in makers:
            local, remote = make_local(sent), make_remote(zeros)
            with there.export(remote) as exported, here.export(local) as buffer:
                here.write(buffer, exported.descriptor).wait(PATIENCE)
                assert seen(remote) == sent
                back = make_local(zeros)
                asyncio.run(awaited(here.read(back, exported.descriptor)))
                assert seen(back) == sent
            for array in (local, remote, back):
                if isinstance(array, CudaArray):
                    array.free()


def seen(memory):
    return memory.tobytes() if isinstance(memory, CudaArray) else bytes(memory)


async def awaited(transfer):
    await transfer


def test_a_buffer_says_on_which_gpu_it_is(driver, pair):
    here, _ = pair
    array = CudaArray(driver, b"12345678")
    with here.export(array) as buffer:
        assert (buffer.device, buffer.nbytes, buffer.readonly) == ("gpu0", 8, False)
    array.free()


def test_an_agent_of_one_gpu_sends_and_receives_its_memory(driver, agents):
    here, there = agents("here", gpu=0), agents("there", gpu=0)
    peer = here.add(there.address)
    here.connect(peer).wait(PATIENCE)
    source, target = CudaArray(driver, b"from a GPU"), CudaArray(driver, bytes(10))
    send = here.send(peer, source, tag=1)
    there.recv("here", target, tag=1).wait(PATIENCE)
    send.wait(PATIENCE)
    assert target.tobytes() == b"from a GPU"
