"""The transport below an unmodified Ray: actors of one machine exchange tensors."""

import os
import pathlib
import threading

import pytest

torch = pytest.importorskip("torch")
ray = pytest.importorskip("ray", reason="Ray is not installed")
if not hasattr(ray.experimental, "register_tensor_transport"):
    pytest.skip("this Ray takes no tensor transports", allow_module_level=True)

import tcpx
import tcpx.ray
from tcpx._tensors import Tensors

PATIENCE = 60
# Methods of actors name it.
tcpx.ray.register()


@pytest.fixture(scope="module")
def cluster():
    tcpx.ray.register()
    # Actors import this module.
    os.environ["PYTHONPATH"] = str(pathlib.Path(__file__).parent)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def actors(cluster):
    actor = ray.remote(num_cpus=0)(Actor)
    return [actor.remote() for _ in range(2)]


class Actor:
    @ray.method(tensor_transport="tcpx")
    def make(self, shape, kind):
        return torch.arange(torch.Size(shape).numel()).to(kind).reshape(shape)

    @ray.method(tensor_transport="tcpx")
    def make_many(self):
        return {
            "weights": torch.arange(1 << 20, dtype=torch.float32),
            "bias": [torch.ones(3, dtype=torch.bfloat16), torch.zeros(0)],
            "step": 7,
        }

    @ray.method(tensor_transport="tcpx")
    def make_odd(self):
        whole = torch.arange(64).reshape(8, 8)
        return [whole.t(), whole[2:3], torch.tensor([1 + 2j]).conj(), torch.tensor(5.0)]

    def sum(self, tensor):
        assert tensor.device.type == "cpu"
        return tensor.double().sum().item(), tuple(tensor.shape), str(tensor.dtype)

    def look(self, value):
        return value["weights"].sum().item(), [it.tolist() for it in value["bias"]], value["step"]

    def look_odd(self, tensors):
        return [tensor.resolve_conj().tolist() for tensor in tensors]

    def put(self):
        self.tensor = torch.full((1024,), 3.0)
        return [ray.put(self.tensor, _tensor_transport="tcpx")]

    def fetch(self, refs):
        return ray.get(refs[0]).sum().item()

    def shared(self):
        from ray.experimental.rdt.util import get_tensor_transport_manager

        return len(get_tensor_transport_manager("TCPX")._owned)

    def process(self):
        return os.getpid()


def test_a_fetch_may_be_collected_while_the_transport_is_busy():
    """The collector runs in any thread, between any two steps of it."""
    manager = tcpx.ray.Transport()
    with tcpx.Agent() as owner, manager.agent():
        remote = owner.export(bytearray(1 << 20)).descriptor
        target = torch.empty(1 << 20, dtype=torch.uint8)
        fetches = [manager.fetch_multiple_tensors("object", of(owner, remote), None, [target])]

        def drop():
            with manager._lock:
                fetches.clear()

        thread = threading.Thread(target=drop, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive() and not manager._fetches


def test_an_aborted_fetch_ends_with_an_error():
    """The owner never answers, so the fetch is under way until it is given up."""
    manager = tcpx.ray.Transport()
    with manager.agent():
        with tcpx.Agent() as owner:
            metadata = of(owner, owner.export(bytearray(64)).descriptor)
        target = torch.empty(64, dtype=torch.uint8)
        fetch = manager.fetch_multiple_tensors("object", metadata, None, [target])
        manager.abort_transport("another", None)
        assert list(manager._fetches.values()) == ["object"]
        manager.abort_transport("object", None)
        with pytest.raises(ray.exceptions.RayDirectTransportError):
            manager.wait_fetch_complete(fetch)


def test_tensors_are_shared_together_or_not_at_all():
    with tcpx.Agent() as agent:
        tensors = Tensors(agent)
        with pytest.raises(ValueError, match="not contiguous"):
            tensors.share_all([torch.ones(8), torch.ones(4, 4).t()])
        assert not tensors._shares


def of(owner, descriptor):
    return tcpx.ray.Metadata(
        tensor_meta=[], tensor_device="cpu", address=owner.address, descriptors=[descriptor]
    )


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1,), torch.int64), ((257, 1023), torch.float32), ((4 << 20,), torch.bfloat16), ((), torch.float64)],
)
def test_an_actor_gets_another_s_tensor(actors, shape, kind):
    maker, taker = actors
    expected = torch.arange(torch.Size(shape).numel()).to(kind)
    answer = ray.get(taker.sum.remote(maker.make.remote(shape, kind)), timeout=PATIENCE)
    assert answer == (expected.double().sum().item(), shape, str(kind))


def test_tensors_within_a_value_are_moved(actors):
    maker, taker = actors
    weights, bias, step = ray.get(taker.look.remote(maker.make_many.remote()), timeout=PATIENCE)
    assert weights == torch.arange(1 << 20, dtype=torch.float32).sum().item()
    assert (bias, step) == ([[1.0, 1.0, 1.0], []], 7)


def test_tensors_that_are_not_plain_memory_are_moved_as_copies(actors):
    maker, taker = actors
    transposed, row, conjugate, scalar = ray.get(
        taker.look_odd.remote(maker.make_odd.remote()), timeout=PATIENCE
    )
    whole = torch.arange(64).reshape(8, 8)
    assert (transposed, row) == (whole.t().tolist(), whole[2:3].tolist())
    assert (conjugate, scalar) == ([1 - 2j], 5.0)


def test_the_actor_that_made_it_uses_its_own(actors):
    maker, _ = actors
    ref = maker.make.remote((8,), torch.int64)
    assert ray.get(maker.sum.remote(ref), timeout=PATIENCE)[0] == 28.0


def test_objects_put_by_an_actor_are_fetched(actors):
    maker, taker = actors
    refs = ray.get(maker.put.remote(), timeout=PATIENCE)
    assert ray.get(taker.fetch.remote(refs), timeout=PATIENCE) == 3 * 1024.0


def test_the_driver_reads_a_tensor(actors):
    maker, _ = actors
    assert ray.get(maker.make.remote((8,), torch.int64), timeout=PATIENCE).tolist() == list(range(8))


def test_memory_is_taken_back_when_no_reference_is_left(actors):
    maker, taker = actors
    refs = [maker.make.remote((1024,), torch.float32) for _ in range(20)]
    ray.get([taker.sum.remote(ref) for ref in refs], timeout=PATIENCE)
    assert ray.get(maker.shared.remote(), timeout=PATIENCE) >= 20
    del refs
    # Ray frees objects some time later.
    for _ in range(600):
        if ray.get(maker.shared.remote(), timeout=PATIENCE) <= 2:
            return
        ray.get(taker.process.remote(), timeout=PATIENCE)
    raise AssertionError("tensors stay shared")


def test_a_reader_of_a_dead_actor_gets_an_error(actors):
    _, taker = actors
    maker = ray.remote(num_cpus=0)(Actor).remote()
    ref = maker.make.remote((1024,), torch.float32)
    ray.get(taker.sum.remote(ref), timeout=PATIENCE)
    ray.kill(maker)
    # It ends some time later.
    with pytest.raises(ray.exceptions.RayActorError):
        while True:
            ray.get(maker.process.remote(), timeout=PATIENCE)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(ref, timeout=PATIENCE)
