"""Tensor transport of Ray: actors read each other's tensors, on the host and on GPUs.

    import tcpx.ray

    tcpx.ray.register()  # before the actors are made

    @ray.remote
    class Trainer:
        @ray.method(tensor_transport="tcpx")
        def weights(self): ...

docs/python-adapters.md has more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
import torch
from ray.experimental import CommunicatorMetadata, TensorTransportManager, TensorTransportMetadata
from ray.experimental import register_tensor_transport as _register
from ray.experimental.rdt.tensor_transport_manager import FetchRequest

from ._agent import Agent
from ._errors import Error
from ._tensors import Share, Tensors, await_streams, plain
from ._transfer import Transfer

_logger = logging.getLogger(__name__)

NAME = "TCPX"
"""Name of the transport for `tensor_transport=`. Ray takes it in any case of letters."""


def register(devices: Sequence[str] = ("cuda", "cpu")) -> None:
    """Makes the transport known to Ray, for actors that are made afterwards.

    Ray carries it to the actors, whose environments must have the package. `devices` are types of
    devices of torch. Calling it again changes nothing.
    """
    from ray.experimental.rdt import util

    if NAME not in util.transport_manager_info:
        _register(NAME, list(devices), Transport, torch.Tensor)


@dataclass(eq=False)
class Metadata(TensorTransportMetadata):
    """What a receiver needs to know of tensors. Descriptors are capabilities, as `ObjectRef`s are."""

    address: bytes = b""
    """Address of the owner's agent."""
    descriptors: list[bytes] = field(default_factory=lambda: list[bytes]())
    """Descriptor of each tensor."""


class _Fetch(FetchRequest):
    """Tensors that are being read."""

    def __init__(
        self,
        obj_id: str,
        tensors: list[Any],
        landing: list[torch.Tensor],
        transfer: Transfer | None,
        forget: Any,
    ) -> None:
        super().__init__(obj_id=obj_id, tensors=tensors)
        # Where the bytes go: other than the tensors where those are not contiguous.
        self.landing = landing
        self.transfer = transfer
        self._forget = forget

    def end(self) -> None:
        """Puts the bytes in their place. Called when the transfer has ended without error."""
        for tensor, landing in zip(self.tensors, self.landing):
            if landing is not tensor:
                tensor.copy_(landing)
        self.landing = list(self.tensors)

    def __del__(self) -> None:
        # Ray has no use for it any more, or it has ended.
        if self.transfer is not None:
            self._forget(self.transfer)
            self.transfer.cancel()


class Transport(TensorTransportManager):
    """What Ray calls, in each actor and in the owner of the objects. Made by Ray."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tensors: Tensors | None = None
        # What this actor owns, by object.
        self._owned: dict[str, tuple[Metadata, list[Share]]] = {}
        # Object of each read that is under way. Used without the lock: a fetch is collected, and
        # takes its transfer out, at any time in any thread, one that has the lock too.
        self._fetches: dict[Transfer, str] = {}

    def tensor_transport_backend(self) -> str:
        """Returns the transport's name."""
        return NAME

    @staticmethod
    def is_one_sided() -> bool:
        """Returns that the receiver alone reads."""
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        """Returns that a read can be given up."""
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """Returns whether the package can be used in an actor."""

        def check(_: Any) -> bool:
            from ray.experimental.rdt.util import get_tensor_transport_manager

            manager: Any = get_tensor_transport_manager(NAME)
            return bool(manager.agent().address)

        call = actor.__ray_call__.options(concurrency_group="_ray_system")
        try:
            answer: Any = ray.get(call.remote(check))
            return bool(answer)
        except Exception:
            _logger.warning("an actor cannot use tcpx", exc_info=True)
            return False

    def agent(self) -> Agent:
        """Returns this process's agent, made with the first call. Variables set its options."""
        return self._all().agent

    def _all(self) -> Tensors:
        with self._lock:
            if self._tensors is None:
                self._tensors = Tensors(Agent())
            return self._tensors

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> Metadata:
        """Shares the tensors of an object. One that is not contiguous is copied first."""
        with self._lock:
            owned = self._owned.get(obj_id)
        if owned is not None:
            return owned[0]
        kinds = {tensor.device.type for tensor in rdt_object}
        if len(kinds) > 1:
            raise ValueError(f"tensors of one object are on one kind of device, not on {sorted(kinds)}")
        tensors = self._all()
        contiguous = [plain(tensor) for tensor in rdt_object]
        await_streams(contiguous)
        shares = tensors.share_all(contiguous)
        metadata = Metadata(
            tensor_meta=[(tensor.shape, tensor.dtype) for tensor in rdt_object],
            tensor_device=next(iter(kinds), None),
            address=tensors.agent.address,
            descriptors=[share.descriptor for share in shares],
        )
        with self._lock:
            self._owned[obj_id] = metadata, shares
        return metadata

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        """Returns nothing of interest: descriptors say all."""
        return CommunicatorMetadata()

    def fetch_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: Any,
        communicator_metadata: Any,
        target_buffers: list[Any] | None = None,
    ) -> _Fetch:
        """Begins to read an object's tensors, into `target_buffers` where they are given."""
        metadata = tensor_transport_metadata
        tensors = target_buffers or [
            torch.empty(shape, dtype=dtype, device=metadata.tensor_device)
            for shape, dtype in metadata.tensor_meta
        ]
        landing = [
            tensor if tensor.is_contiguous() else torch.empty_like(tensor).contiguous()
            for tensor in tensors
        ]
        with _as_error_of_ray(obj_id):
            transfer = self._all().fetch(metadata.address, metadata.descriptors, landing)
        if transfer is not None:
            self._fetches[transfer] = obj_id
        return _Fetch(obj_id, tensors, landing, transfer, self._forget)

    def wait_fetch_complete(self, fetch_request: Any, timeout: float = -1) -> list[Any]:
        """Waits for a read, for at most `timeout` seconds; without limit if it is negative."""
        transfer = fetch_request.transfer
        if transfer is not None:
            if timeout >= 0 and not transfer.done():
                _wait_for(transfer, timeout, fetch_request.obj_id)
            with _as_error_of_ray(fetch_request.obj_id):
                transfer.wait()
        fetch_request.end()
        return list(fetch_request.tensors)

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: Any,
        communicator_metadata: Any,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        """Reads an object's tensors."""
        fetch = self.fetch_multiple_tensors(
            obj_id, tensor_transport_metadata, communicator_metadata, target_buffers
        )
        return self.wait_fetch_complete(fetch)

    def send_multiple_tensors(
        self, tensors: list[Any], tensor_transport_metadata: Any, communicator_metadata: Any
    ) -> None:
        """Raises: receivers read."""
        raise NotImplementedError("receivers read: nothing is sent")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: list[Any]) -> None:
        """Takes the tensors of an object back from peers."""
        with self._lock:
            owned = self._owned.pop(obj_id, None)
        for share in owned[1] if owned is not None else ():
            self._all().unshare(share)

    def abort_transport(self, obj_id: str, communicator_metadata: Any) -> None:
        """Gives up the reads of an object. What they read into is free when they have ended."""
        for transfer, of in list(self._fetches.items()):
            if of == obj_id:
                transfer.cancel()

    def _forget(self, transfer: Transfer) -> None:
        self._fetches.pop(transfer, None)


def _wait_for(transfer: Transfer, timeout: float, obj_id: str) -> None:
    """Waits for the end of a transfer, in whatever way. Raises `TimeoutError` while it goes on."""
    try:
        transfer.wait(timeout)
    except Error:
        if not transfer.done():
            raise TimeoutError(f"object {obj_id} is not read after {timeout} s") from None


class _as_error_of_ray:
    """Raises the package's errors as Ray's, which say that an object is lost."""

    def __init__(self, obj_id: str) -> None:
        self._obj_id = obj_id

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Error):
            from ray.exceptions import RayDirectTransportError

            raise RayDirectTransportError(f"object {self._obj_id} cannot be read: {error}") from error
