"""Tensors of torch, on the host and on a GPU, where both are there."""

import asyncio

import pytest

import tcpx

torch = pytest.importorskip("torch")

HERE = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def settle():
    """What is moved must be there: streams are the program's."""
    if "cuda" in HERE:
        torch.cuda.synchronize()


@pytest.mark.parametrize("local", HERE)
@pytest.mark.parametrize("remote", HERE)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64])
def test_tensors_move_between_devices(pair, local, remote, kind):
    here, there = pair
    source = torch.arange(1024 * 257, device=local).reshape(1024, 257).to(kind)
    target, back = torch.zeros_like(source, device=remote), torch.zeros_like(source)
    settle()

    async def both():
        descriptor = there.export(target).descriptor
        await here.write(source, descriptor)
        await here.read(back, descriptor)

    asyncio.run(both())
    assert torch.equal(target.cpu(), source.cpu()) and torch.equal(back, source)


@pytest.mark.parametrize("device", HERE)
def test_a_tensor_that_is_no_plain_memory_is_refused(pair, device):
    here, _ = pair
    tensor = torch.zeros(4, 8, device=device)
    with pytest.raises(tcpx.BadMemory, match="not contiguous"):
        here.export(tensor.t())
    with pytest.raises(BufferError):
        here.export(torch.zeros(4, device=device, requires_grad=True))
