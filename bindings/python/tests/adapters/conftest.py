"""Settings of all tests of adapters: agents listen on the loopback alone."""

import os

import pytest

# Before anything makes an agent; processes that the tests start inherit it.
for name in [name for name in os.environ if name.startswith("TCPX_")]:
    del os.environ[name]
os.environ["TCPX_LISTEN"] = "127.0.0.1:0"
# vLLM and Ray report nothing from here.
os.environ.update(VLLM_NO_USAGE_STATS="1", RAY_USAGE_STATS_ENABLED="0", VLLM_TARGET_DEVICE="cpu")


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Devices of torch that are here."""
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return request.param
