"""torch's own transport over NIXL with the backend TCPX: `new_transport("nixl", device, plugin="TCPX")`."""

import asyncio
import multiprocessing

import pytest

torch = pytest.importorskip("torch")
transport = pytest.importorskip(
    "torch.distributed._transport", reason="this torch has no torch.distributed._transport"
)
pytest.importorskip("nixl", reason="there is no NIXL")
pytest.importorskip("nixl_tcpx", reason="the backend for NIXL is not installed")

PATIENCE = 60.0
MANY = 1 << 20


def new(device="cpu", **options):
    return transport.new_transport("nixl", device, plugin="TCPX", timeout=PATIENCE, **options)


@pytest.fixture
def ends(device):
    first, second = new(device), new(device)
    first.connect(second.bind())
    yield first, second
    first.close()
    second.close()


def passed_on(memory):
    """The descriptor, as it arrives at a peer."""
    descriptor = memory.to_remote_buffer()
    return type(descriptor).deserialize(descriptor.serialize())


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("count", [1, 4096, MANY])
def test_tensors_are_written_and_read(ends, device, kind, count):
    first, second = ends
    source = torch.arange(count, device=device).to(kind)
    target, back = torch.zeros_like(source), torch.zeros_like(source)
    remote = passed_on(second.register_memory(target))
    first.write(first.register_memory(source).to_view(), remote)
    assert torch.equal(target.view(torch.uint8), source.view(torch.uint8))
    first.read(first.register_memory(back).to_mutable_view(), remote)
    assert torch.equal(back.view(torch.uint8), source.view(torch.uint8))


def test_many_works_are_under_way_in_a_loop(ends, device):
    first, second = ends
    source = torch.arange(4096, dtype=torch.int32, device=device)
    targets = [torch.zeros_like(source) for _ in range(32)]
    view = first.register_memory(source).to_view()
    remotes = [passed_on(second.register_memory(target)) for target in targets]

    async def write_all():
        works = [first.write(view, remote, async_op=True) for remote in remotes]
        await transport.wait_all(works, timeout=PATIENCE)
        assert all(work.is_success() for work in works)

    asyncio.run(write_all())
    assert all(torch.equal(target, source) for target in targets)


def test_parameters_of_the_backend_are_passed_on():
    with new(backend_options={"channels": "2"}) as first, new(backend_options={"channels": "2"}) as second:
        first.connect(second.bind())
        source, target = torch.arange(8), torch.zeros(8, dtype=torch.int64)
        first.write(first.register_memory(source).to_view(), passed_on(second.register_memory(target)))
        assert torch.equal(target, source)
    with pytest.raises(RuntimeError, match="failed to create transport"):
        new(backend_options={"flows": "16"})


def serve(pipe):
    with new() as endpoint:
        pipe.send(endpoint.bind())
        memory = endpoint.register_memory(torch.arange(MANY))
        pipe.send(memory.to_remote_buffer().serialize())
        pipe.recv()


def test_two_processes_exchange_bytes():
    from torch.distributed._transport.nixl import NIXLRemoteBuffer

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,))
    process.start()
    with new() as endpoint:
        endpoint.connect(here.recv())
        remote = NIXLRemoteBuffer.deserialize(here.recv())
        target = torch.zeros(MANY, dtype=torch.int64)
        endpoint.read(endpoint.register_memory(target).to_mutable_view(), remote)
        here.send(None)
        assert torch.equal(target, torch.arange(MANY))
    process.join(PATIENCE)
    assert process.exitcode == 0
