"""A source of weights and receivers for vLLM's weight transfer, each a process of its own.

The receivers have the engine that vLLM makes for a worker, with a model in the place of the
worker's. The source is the trainer's engine, with a client that reaches them by pipes instead of
HTTP: vLLM asks for an object with these four methods.
"""

import functools
from types import SimpleNamespace

import torch

COUNT = 40
KINDS = [torch.bfloat16, torch.float32, torch.float8_e4m3fn]


def weight(index, generation):
    """Weight number `index`, with other values in each generation."""
    shape = (index + 1, 129) if index % 7 else ()
    values = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    return (values % 50 + generation).to(KINDS[index % len(KINDS)])


class Model(torch.nn.Module):
    """A model as vLLM's are: it takes named weights."""

    def __init__(self):
        super().__init__()
        self.weights = {}
        self.calls = 0

    def load_weights(self, weights):
        self.calls += 1
        self.weights.update(weights)
        return {name for name, _ in weights}


def receive(pipe):
    """Runs what the source says, and answers with errors or None."""
    from vllm.config import ParallelConfig, WeightTransferConfig
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.plugins import load_general_plugins

    # A worker of vLLM does this, and so finds the backend.
    load_general_plugins()
    model = Model()
    settings = SimpleNamespace(
        parallel_config=ParallelConfig(), model_config=SimpleNamespace(dtype=torch.bfloat16)
    )
    config = WeightTransferConfig(backend="tcpx")
    engine = WeightTransferEngineFactory.create_engine(config, settings, torch.device("cpu"), model)
    while True:
        name, arguments = pipe.recv()
        if name == "end":
            engine.shutdown()
            return
        try:
            pipe.send(answer(engine, model, name, *arguments))
        except Exception as error:
            pipe.send(error)


def answer(engine, model, name, *arguments):
    if name == "init_weight_transfer_engine":
        engine.init_transfer_engine(engine.parse_init_info(*arguments))
    elif name == "update_weights":
        engine.receive_weights(engine.parse_update_info(*arguments))
    elif name == "check":
        expected = {f"weight.{index}": weight(index, *arguments) for index in range(COUNT)}
        assert model.weights.keys() == expected.keys()
        for key, value in expected.items():
            assert torch.equal(model.weights[key].float(), value.float()), key
        calls, model.calls = model.calls, 0
        return calls
    else:
        getattr(engine, name)()
    return None


class Client:
    """What vLLM's trainer engine drives."""

    def __init__(self, pipes):
        self._pipes = pipes

    def all(self, name, *arguments):
        for pipe in self._pipes:
            pipe.send((name, arguments))
        answers = [pipe.recv() for pipe in self._pipes]
        for each in answers:
            if isinstance(each, Exception):
                raise each
        return answers

    def init_weight_transfer_engine(self, init_info):
        self.all("init_weight_transfer_engine", init_info)

    def start_weight_update(self):
        self.all("start_weight_update")

    def update_weights(self, update_info):
        self.all("update_weights", update_info)

    def finish_weight_update(self, weight_version=None):
        self.all("finish_weight_update")


def make_source():
    """A source whose `generation` may be raised."""
    from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource

    class Source(WeightSource):
        generation = 0

        @functools.cached_property
        def metadata(self):
            tensors = [weight(index, 0) for index in range(COUNT)]
            return [ParamMeta(f"weight.{i}", it.dtype, tuple(it.shape)) for i, it in enumerate(tensors)]

        def iter_full(self):
            for index in range(COUNT):
                yield f"weight.{index}", weight(index, self.generation)

    return Source()
