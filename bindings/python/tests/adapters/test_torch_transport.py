"""The transport below an unmodified `torch.distributed._transport`."""

import asyncio
import gc
import multiprocessing
import threading
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
transport = pytest.importorskip(
    "torch.distributed._transport", reason="this torch has no torch.distributed._transport"
)

PATIENCE = 60.0
KINDS = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex64]


def new(device="cpu", **options):
    return transport.new_transport("tcpx", device, **options)


@pytest.fixture
def ends(device):
    first, second = new(device), new(device)
    first_url, second_url = first.bind(), second.bind()
    assert (first.connect(second_url), second.connect(first_url)) == (0, 0)
    assert first.connected() and second.connected()
    yield first, second
    first.close()
    second.close()


def passed_on(memory):
    """The descriptor, as it arrives at a peer."""
    descriptor = memory.to_remote_buffer()
    assert isinstance(descriptor, transport.RemoteBuffer)
    return type(descriptor).deserialize(descriptor.serialize())


def test_torch_finds_the_transport_by_its_entry_point():
    assert "tcpx" in transport.available_transports()
    with new(None) as endpoint:
        assert isinstance(endpoint, transport.Transport) and endpoint.device is None


def test_an_unknown_option_and_another_kind_of_device_are_refused():
    with pytest.raises(RuntimeError, match="failed to create transport"):
        new("cpu", flows=16)
    with pytest.raises(RuntimeError, match="failed to create transport"):
        new("meta")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_tensors_are_written_and_read(ends, device, kind):
    first, second = ends
    source = torch.arange(4096, device=device).to(kind).reshape(64, 64)
    target, back = torch.zeros_like(source), torch.zeros_like(source)
    remote = passed_on(second.register_memory(target))
    assert first.write(first.register_memory(source).to_view(), remote) == 0
    assert torch.equal(target.view(torch.uint8), source.view(torch.uint8))
    assert first.read(first.register_memory(back).to_mutable_view(), remote) == 0
    assert torch.equal(back.view(torch.uint8), source.view(torch.uint8))


def test_views_are_byte_ranges(ends):
    first, second = ends
    source = torch.arange(64, dtype=torch.uint8, device=first.device)
    target = torch.zeros(16, dtype=torch.uint8, device=first.device)
    memory, remote = first.register_memory(source), passed_on(second.register_memory(target))
    view, mutable = memory.to_view(16, 16), memory.to_mutable_view(16, 32)
    assert isinstance(view, transport.MemoryView) and not isinstance(view, transport.MutableMemoryView)
    assert isinstance(mutable, transport.MutableMemoryView) and mutable.size() == 32
    first.write(view, remote)
    assert torch.equal(target, source[16:32])
    first.read(memory.to_mutable_view(0, 4), remote)
    assert source[:4].tolist() == [16, 17, 18, 19]
    assert first.write(memory.to_view(64, 0), remote) == 0
    for offset, length in [(65, None), (-1, None), (0, 65), (8, -1)]:
        with pytest.raises(ValueError, match="are not in the 64"):
            memory.to_view(offset, length)


def test_a_transfer_that_does_not_fit_is_refused(ends):
    first, second = ends
    large = first.register_memory(torch.zeros(64, device=first.device))
    small = second.register_memory(torch.zeros(4, device=first.device))
    remote = passed_on(small)
    with pytest.raises(ValueError, match="do not fit"):
        first.write(large.to_view(), remote)
    with pytest.raises(TypeError, match="no MutableMemoryView"):
        first.read(large.to_view(0, 4), remote)
    with pytest.raises(TypeError, match="no MemoryView of this transport"):
        first.write(small.to_view(), remote)
    with pytest.raises(TypeError, match="not one of a tcpx transport"):
        first.write(large.to_view(0, 4), remote.serialize())
    for data in (b"no descriptor", remote.serialize()[:-1]):
        with pytest.raises(ValueError):
            type(remote).deserialize(data)
    with pytest.raises(TypeError):
        type(remote).deserialize("text")


def test_tensors_that_cannot_be_registered_are_refused(ends):
    first, _ = ends
    with pytest.raises(ValueError, match="not contiguous"):
        first.register_memory(torch.zeros(4, 8, device=first.device).t())
    with pytest.raises(ValueError, match="without elements"):
        first.register_memory(torch.zeros(0, device=first.device))
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        first.register_memory(bytearray(8))
    with pytest.raises(ValueError, match="expected a tensor on"):
        first.register_memory(torch.zeros(4, device="meta"))


def test_works_complete_by_wait_by_future_and_in_a_loop(ends):
    first, second = ends
    source = torch.arange(1 << 16, dtype=torch.int32, device=first.device)
    target, back = torch.zeros_like(source), torch.zeros_like(source)
    local, into = first.register_memory(source), first.register_memory(back)
    remote = passed_on(second.register_memory(target))
    write = first.write(local.to_view(), remote, async_op=True)
    assert isinstance(write, transport.Work)
    assert write.wait(timedelta(seconds=PATIENCE)) and write.is_completed() and write.is_success()
    assert write.get_future().wait() == [] and write.exception() is None
    read = first.read(into.to_mutable_view(), remote, async_op=True)
    # Nothing waits here but the future.
    assert read.get_future().wait() == [] and torch.equal(back, source)

    async def many():
        await first.write_async(local.to_view(), remote, timeout=PATIENCE)
        works = [first.write(local.to_view(), remote, async_op=True) for _ in range(200)]
        await transport.wait_all(works, timeout=PATIENCE)
        assert all(work.is_success() for work in works)
        await first.read_async(into.to_mutable_view(), remote)
        await first.close_async(timeout=PATIENCE)

    asyncio.run(many())
    with pytest.raises(RuntimeError, match="closed"):
        first.write(local.to_view(), remote)


def test_a_failed_work_says_so_everywhere(ends):
    first, second = ends
    memory = second.register_memory(torch.zeros(1 << 20, device=first.device))
    remote = passed_on(memory)
    local = first.register_memory(torch.zeros(1 << 20, device=first.device))
    second.unregister_memory(memory)
    second.unregister_memory(memory)
    work = first.write(local.to_view(), remote, async_op=True)
    with pytest.raises(Exception, match="TCPX-831"):
        work.wait()
    assert work.is_completed() and not work.is_success() and "TCPX-831" in str(work.exception())
    with pytest.raises(Exception, match="TCPX-831"):
        work.get_future().wait()
    with pytest.raises(Exception, match="TCPX-831"):
        asyncio.run(first.write_async(local.to_view(), remote))
    with pytest.raises(RuntimeError, match="unregistered"):
        memory.to_remote_buffer()


def test_registrations_of_the_same_memory_are_one(ends):
    first, _ = ends
    tensor = torch.zeros(64, device=first.device)
    memory = first.register_memory(tensor)
    again = first.register_memory(tensor)
    assert (memory.reused_registration(), again.reused_registration()) == (False, True)
    assert memory.to_remote_buffer().serialize() == again.to_remote_buffer().serialize()
    first.unregister_memory(again)
    with pytest.raises(RuntimeError, match="unregistered"):
        memory.to_view()
    assert not first.register_memory(tensor).reused_registration()


def test_a_resized_tensor_is_not_moved(ends):
    first, second = ends
    tensor = torch.zeros(64, device=first.device)
    memory = first.register_memory(tensor)
    remote = passed_on(second.register_memory(torch.zeros(64, device=first.device)))
    view = memory.to_view()
    tensor.resize_(1 << 20)
    with pytest.raises(RuntimeError, match="resized"):
        first.write(view, remote)


def test_a_second_peer_and_a_bad_address_are_refused(ends):
    first, second = ends
    with pytest.raises(RuntimeError, match="already connected"):
        first.connect(second.bind())
    with new() as third, pytest.raises(ValueError):
        third.connect(b"tcp://127.0.0.1:1")


def test_an_endpoint_connects_before_it_moves_anything():
    with new() as first, new() as second:
        first.connect(second.bind())
        assert first.connected() and not second.connected()
        source, target = torch.arange(8), torch.zeros(8, dtype=torch.int64)
        here, there = first.register_memory(source), second.register_memory(target)
        with pytest.raises(RuntimeError, match="not connected"):
            second.read(there.to_mutable_view(), passed_on(here))
        first.write(here.to_view(), passed_on(there))
        assert torch.equal(target, source)


def test_memory_that_peers_have_outlives_the_program_s_references():
    first, second = new(), new()
    second.connect(first.bind())
    tensor = torch.arange(8)
    remote = passed_on(first.register_memory(tensor))
    kept = first.close
    del first
    gc.collect()
    back = torch.zeros_like(tensor)
    second.read(second.register_memory(back).to_mutable_view(), remote)
    assert torch.equal(back, tensor)
    kept()
    second.close()


def serve(pipe):
    with new() as endpoint:
        pipe.send(endpoint.bind())
        tensor = torch.arange(1 << 20)
        pipe.send(endpoint.register_memory(tensor).to_remote_buffer().serialize())
        pipe.recv()


def test_two_processes_exchange_bytes():
    from tcpx.torch import RemoteBuffer

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,))
    process.start()
    with new() as endpoint:
        endpoint.connect(here.recv())
        remote = RemoteBuffer.deserialize(here.recv())
        target = torch.zeros(1 << 20, dtype=torch.int64)
        endpoint.read(endpoint.register_memory(target).to_mutable_view(), remote)
        here.send(None)
        assert torch.equal(target, torch.arange(1 << 20))
    process.join(PATIENCE)
    assert process.exitcode == 0


def test_ranks_of_a_store_find_each_other(tmp_path):
    """The bootstrap of torch itself, with two ranks in threads."""
    from concurrent.futures import ThreadPoolExecutor

    store = torch.distributed.FileStore(str(tmp_path / "store"), 2)

    def make(rank):
        options = {"store": store, "rank": rank, "peer_rank": 1 - rank}
        return transport.new_transport_rank("tcpx", "cpu", **options)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(make, range(2))
    with first, second:
        assert first.connected() and second.connected()


def test_memory_is_unregistered_while_other_threads_move_it(ends, device):
    first, second = ends
    local = torch.zeros(64, device=device)
    remote = passed_on(second.register_memory(torch.zeros(64, device=device)))
    wrong, may_end = [], threading.Event()

    def move():
        while not may_end.is_set():
            try:
                first.write(first.register_memory(local).to_view(), remote)
            except RuntimeError as error:
                # The other thread came first: that, and no other error.
                if "unregistered" not in str(error):
                    wrong.append(error)
            except Exception as error:
                wrong.append(error)

    movers = [threading.Thread(target=move) for _ in range(2)]
    for mover in movers:
        mover.start()
    for _ in range(300):
        try:
            first.unregister_memory(first.register_memory(local))
        except RuntimeError as error:
            assert "pending" in str(error)
    may_end.set()
    for mover in movers:
        mover.join(PATIENCE)
    assert not wrong and not any(mover.is_alive() for mover in movers)


def test_close_lets_no_thread_begin_a_transfer(device):
    first, second = new(device), new(device)
    first.connect(second.bind())
    view = first.register_memory(torch.zeros(64, device=device)).to_view()
    remote = passed_on(second.register_memory(torch.zeros(64, device=device)))
    works, has_begun = [], threading.Event()

    def move():
        while True:
            try:
                works.append(first.write(view, remote, async_op=True))
            except RuntimeError:
                return
            has_begun.set()

    mover = threading.Thread(target=move)
    mover.start()
    assert has_begun.wait(PATIENCE)
    closers = [threading.Thread(target=first.close) for _ in range(2)]
    for closer in closers:
        closer.start()
    for thread in (mover, *closers):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert all(work.is_success() for work in works)
    second.close()
