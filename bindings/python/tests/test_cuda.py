"""Memory of GPUs, by the driver alone: neither torch nor cupy is needed."""

import asyncio
import ctypes
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

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
        count = ctypes.c_int()
        if self._library.cuInit(0) != 0 or self._library.cuDeviceGetCount(ctypes.byref(count)) != 0:
            pytest.skip("there is no GPU")
        self.gpus = count.value
        self._contexts = {}
        self.enter(0)
        self.stream = self.new_stream()

    def enter(self, gpu):
        """Makes the context of a GPU current."""
        if gpu not in self._contexts:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.call("cuDeviceGet", ctypes.byref(device), gpu)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[gpu] = context
        self.call("cuCtxPushCurrent_v2", self._contexts[gpu])

    def leave(self):
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def new_stream(self):
        stream, non_blocking = ctypes.c_void_p(), 1
        self.call("cuStreamCreate", ctypes.byref(stream), non_blocking)
        return stream

    def copy(self, target, source, nbytes):
        self.queue_copy(target, source, nbytes, self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def queue_copy(self, target, source, nbytes, stream):
        self.call("cuMemcpyAsync", target, source, ctypes.c_size_t(nbytes), stream)

    def pin(self, nbytes):
        """Returns the address of pinned memory."""
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(nbytes), 3)
        return address.value

    def call(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        assert status == 0, f"{name} returned {status}"


class HeldStream:
    """A stream that goes on once it is released, like one whose kernel waits for something."""

    def __init__(self, driver):
        self._driver, self.raw = driver, driver.new_stream()
        self._address = driver.pin(4)
        self._flag = ctypes.c_uint32.from_address(self._address)
        self._flag.value = 0
        at_least = 0
        flag = ctypes.c_uint64(self._address)
        driver.call("cuStreamWaitValue32_v2", self.raw, flag, ctypes.c_uint32(1), at_least)

    @property
    def handle(self):
        return self.raw.value

    def release(self):
        self._flag.value = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()
        self._driver.call("cuStreamSynchronize", self.raw)
        self._driver.call("cuMemFreeHost", ctypes.c_void_p(self._address))


class CudaArray:
    """Bytes on the current GPU, which offer `__cuda_array_interface__`."""

    def __init__(self, driver, data):
        self._driver, self.nbytes, address = driver, len(data), ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(self.nbytes))
        self.address = address
        source = ctypes.create_string_buffer(bytes(data), self.nbytes)
        driver.copy(address, ctypes.c_uint64(ctypes.addressof(source)), self.nbytes)
        self.__cuda_array_interface__ = {
            "data": (address.value, False),
            "shape": (self.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 3,
        }

    def tobytes(self):
        data = ctypes.create_string_buffer(self.nbytes)
        target = ctypes.c_uint64(ctypes.addressof(data))
        self._driver.copy(target, self.address, self.nbytes)
        return data.raw

    def free(self):
        self._driver.call("cuMemFree_v2", self.address)


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


def test_an_agent_of_all_devices_refuses_to_send_memory_of_a_gpu_by_tag(driver, pair):
    here, _ = pair
    array = CudaArray(driver, b"12345678")
    for post in (here.send, here.recv):
        with pytest.raises(tcpx.BadMemory, match="with gpu = 0 alone") as refused:
            post("there", array)
        assert refused.value.diagnosis == "TCPX-825"
    array.free()


def test_an_array_that_does_not_name_its_gpu_is_on_the_right_one(driver, pair):
    here, _ = pair
    gpu = driver.gpus - 1
    driver.enter(gpu)
    stream, driver.stream = driver.stream, driver.new_stream()
    array = CudaArray(driver, b"12345678")
    driver.stream = stream
    driver.leave()
    with here.export(array) as buffer:
        assert buffer.device == f"gpu{gpu}"
    array.free()


class Late:
    """Memory of a GPU that a held stream has still to fill."""

    def __init__(self, driver, *agents):
        self._driver, self.new, self.old = driver, b"new bytes", b"old bytes"
        self.array, self.source = CudaArray(driver, self.old), CudaArray(driver, self.new)
        for agent in agents:
            # An agent's first use of a GPU waits for the whole of it.
            agent.export(self.array, stream=-1).close()
        self._stream = HeldStream(driver)
        self.handle, self.release = self._stream.handle, self._stream.release

    def __enter__(self):
        self._stream.__enter__()
        raw, nbytes = self._stream.raw, len(self.new)
        self._driver.queue_copy(self.array.address, self.source.address, nbytes, raw)
        return self

    def __exit__(self, *error):
        self._stream.__exit__(*error)
        self.array.free()
        self.source.free()


@pytest.mark.parametrize("waits", ["wait", "await"])
def test_a_write_begins_after_what_its_stream_was_given(driver, pair, waits):
    here, there = pair
    target = bytearray(9)
    remote = there.export(target).descriptor
    with Late(driver, here) as late:

        async def awaited_late():
            transfer = here.write(late.array, remote, stream=late.handle)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(ended(transfer)), 0.2)
            assert target == bytes(9)
            late.release()
            await transfer

        if waits == "await":
            asyncio.run(awaited_late())
        else:
            transfer = here.write(late.array, remote, stream=late.handle)
            with pytest.raises(tcpx.Timeout):
                transfer.wait(0.2)
            assert not transfer.done() and target == bytes(9)
            late.release()
            transfer.wait(PATIENCE)
        assert target == late.new


async def ended(transfer):
    while not transfer.done():
        await asyncio.sleep(0.001)


def test_memory_is_read_into_after_what_its_stream_was_given(driver, pair):
    here, there = pair
    remote = there.export(b"read late").descriptor
    with Late(driver, here) as late:
        transfer = here.read(late.array, remote, stream=late.handle)
        assert not transfer.done()
        late.release()
        transfer.wait(PATIENCE)
        assert late.array.tobytes() == b"read late"


def test_a_stream_is_not_waited_for_where_the_program_says_so(driver, pair):
    here, there = pair
    target = bytearray(9)
    remote = there.export(target).descriptor
    with Late(driver, here) as late:
        for other in (None, 1, 2, -1, driver.stream.value):
            here.write(late.array, remote, stream=other).wait(PATIENCE)
            assert target == late.old


def test_a_descriptor_is_made_after_what_its_stream_was_given(driver, pair):
    here, there = pair
    with Late(driver, there) as late:
        buffer = there.export(late.array, stream=late.handle)
        with ThreadPoolExecutor() as threads:
            descriptor = threads.submit(lambda: buffer.descriptor)
            with pytest.raises(FutureTimeout):
                descriptor.result(0.2)
            late.release()
            got = bytearray(9)
            here.read(got, descriptor.result(PATIENCE)).wait(PATIENCE)
        assert got == late.new
        buffer.close()


def test_sends_with_one_tag_keep_their_order_behind_a_stream(driver, agents):
    here, there = agents("here", gpu=0), agents("there", gpu=0)
    peer = here.add(there.address)
    here.connect(peer).wait(PATIENCE)
    got = bytearray(9), bytearray(9)
    with Late(driver, here) as late:
        sends = [here.send(peer, late.array, tag=3, stream=late.handle)]
        sends.append(here.send(peer, b"comes 2nd", tag=3))
        receives = [there.recv("here", each, tag=3) for each in got]
        assert not any(each.done() for each in sends)
        late.release()
        for each in sends + receives:
            each.wait(PATIENCE)
        assert got == (late.new, b"comes 2nd")


def test_what_waits_for_a_stream_can_be_cancelled(driver, pair):
    here, there = pair
    target = bytearray(9)
    with Late(driver, here) as late:
        transfer = here.write(late.array, there.export(target).descriptor, stream=late.handle)
        transfer.cancel()
        with pytest.raises(tcpx.Cancelled):
            transfer.wait(PATIENCE)
    assert target == bytes(9)


@pytest.mark.parametrize("stream", [0, -2])
def test_a_number_that_names_no_stream_is_refused(pair, stream):
    here, there = pair
    remote = there.export(bytearray(1)).descriptor
    with pytest.raises(ValueError, match="names no stream"):
        here.read(bytearray(1), remote, stream=stream)
    with pytest.raises(ValueError, match="names no stream"):
        here.export(bytearray(1), stream=stream)
