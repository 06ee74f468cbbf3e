"""The engines below an unmodified vLLM: one source, and two receivers on the CPU."""

import multiprocessing

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm", reason="vLLM is not installed")
factory = pytest.importorskip("vllm.distributed.weight_transfer.factory")
if not hasattr(factory, "WeightTransferTrainerFactory"):
    pytest.skip("this vLLM has no engine in the trainer", allow_module_level=True)

import tcpx.vllm
import vllm_peers

PATIENCE = 60.0

# Receivers import vLLM once, which takes half a minute.


@pytest.fixture(scope="module")
def client():
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(2)]
    processes = [context.Process(target=vllm_peers.receive, args=(there,)) for _, there in pairs]
    for process, (_, there) in zip(processes, pairs):
        process.start()
        # So that its end shows.
        there.close()
    client = vllm_peers.Client([here for here, _ in pairs])
    yield client
    for here, _ in pairs:
        here.send(("end", ()))
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0


@pytest.mark.parametrize("chunk_bytes", [tcpx.vllm.CHUNK_BYTES, 100_000, 1])
def test_two_receivers_take_over_weights(client, chunk_bytes):
    from tcpx.vllm import TrainerInitInfo

    tcpx.vllm.register()
    tcpx.vllm.register()
    source = vllm_peers.make_source()
    trainer = factory.WeightTransferTrainerFactory.trainer_init(
        TrainerInitInfo(rank=0, chunk_bytes=chunk_bytes), client=client, source=source
    )
    for generation in range(3):
        source.generation = generation
        trainer.send_weights()
        loads = client.all("check", generation)
        expected = {tcpx.vllm.CHUNK_BYTES: 1, 1: vllm_peers.COUNT}.get(chunk_bytes, loads[0])
        assert loads == [expected, expected]
    # Nothing stays shared, and no descriptor is of use any more.
    assert not trainer._tensors._shares
    trainer.shutdown()


def test_an_update_whose_lists_differ_is_refused(client):
    with pytest.raises(ValueError, match="differ in number"):
        client.update_weights({"names": ["a"], "dtype_names": [], "shapes": [], "descriptors": []})


def test_weights_of_a_dead_trainer_are_an_error(client):
    info = {"names": ["a"], "dtype_names": ["float32"], "shapes": [[4]]}
    agent = tcpx.Agent()
    (address,) = tcpx.vllm.to_text([agent.address])
    (descriptor,) = tcpx.vllm.to_text([agent.export(bytearray(16)).descriptor])
    client.init_weight_transfer_engine({"address": address})
    agent.close()
    with pytest.raises(Exception, match="TCPX-"):
        client.update_weights({**info, "descriptors": [descriptor]})
