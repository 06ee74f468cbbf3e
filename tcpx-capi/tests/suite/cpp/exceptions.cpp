// Failures are exceptions with their status and words; time-outs and success are not.
#include "tcpx_p2p.hpp"

#include <cstdio>
#include <functional>
#include <future>
#include <type_traits>

static_assert(!std::is_copy_constructible<tcpx::Session>::value, "a session has one owner");
static_assert(!std::is_copy_constructible<tcpx::Transfer>::value, "a transfer has one owner");
static_assert(std::is_nothrow_move_constructible<tcpx::Session>::value, "a session can be handed on");
static_assert(std::is_nothrow_move_constructible<tcpx::Transfer>::value, "a transfer can be handed on");

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void throws(tcpx_status status, const std::function<void()>& call, const char* id = nullptr) {
  try {
    call();
  } catch (const tcpx::Error& error) {
    require(error.status() == status, error.what());
    require(*error.what() != '\0', "an error without words");
    require(id == nullptr || std::string(error.id()) == id, error.id());
    require(error.id()[0] == '\0' || std::string(error.what()).find(error.id()) != std::string::npos, error.what());
    return;
  }
  throw std::runtime_error("nothing was thrown");
}

void sessions() {
  tcpx::Session left(TCPX_GPU_NONE, 2);
  tcpx_session_options options = tcpx::defaultOptions();
  options.channels = 1;
  tcpx::Session right(options);
  throws(TCPX_ERR_SETTING, [] { tcpx::Session(TCPX_GPU_NONE, -1); });
  throws(TCPX_ERR_UNAVAILABLE, [] { tcpx::Session(0, 2); });
  throws(TCPX_ERR_UNKNOWN_PEER, [&] { right.connect("left"); }, "TCPX-838");
  throws(TCPX_ERR_CONN_INFO, [&] { right.loadRemoteConnInfo("left", "not connection info"); },
         "TCPX-728");
  throws(TCPX_ERR_ARGUMENT, [&] { right.connect(std::string("le\0ft", 5)); });

  right.loadRemoteConnInfo("left", left.listen());
  auto accepted = std::async(std::launch::async, [&] { return left.accept("right"); });
  require(right.connect("left") == TCPX_OK && accepted.get() == TCPX_OK, "connected");

  std::string from = "0123456789";
  std::string to(10, ' ');
  const std::uint64_t source = left.registerMemory(&from[0], from.size(), TCPX_PTR_HOST, false);
  const std::uint64_t target = right.registerMemory(&to[0], to.size(), TCPX_PTR_CUDA, true);
  require(right.memoryInfo(target).bytes == 10 && source != 0, "registered");
  throws(TCPX_ERR_MEMORY, [&] { left.registerMemoryList({{&from[0], 0, TCPX_PTR_HOST, 0}}); }, "TCPX-825");
  tcpx::Transfer send = left.transfer("right");
  tcpx::Transfer receive = right.transfer("left");
  receive.setTimeout(3600000);
  require(receive.isComplete(), "a transfer without posts is complete");
  receive.postRecvBatch({target, target}, {5, 0}, {5, 5}, {2, 1});
  require(!receive.isComplete() && receive.wait(1) == TCPX_ERR_TIMEOUT, "the receive waits");
  throws(TCPX_ERR_ARGUMENT, [&] { send.postSendBatch({source}, {0, 5}, {5}, {1}); });
  throws(TCPX_ERR_MEMORY, [&] { send.postSend(source, 6, 5, 1); });
  send.postSendBatch({source, source}, {0, 5}, {5, 5}, {1, 2});
  auto sent = std::async(std::launch::async, [&] { return send.wait(); });
  require(receive.wait(30000) == TCPX_OK && sent.get() == TCPX_OK, "complete");
  require(to == from && receive.counts().bytes_done == 10, "every byte is there");
  const auto stats = right.stats();
  // Sends that are posted before the receives are heard of travel on the control link.
  require(stats.bytes_received + stats.eager_bytes_received == 10, "counted");
  require(right.statsJson().back() == '}', "the JSON is whole");
  require(right.metricsText().find("tcpx_peer_bytes_total{") != std::string::npos, "the metrics are there");
  require(!right.nics().empty() && receive.error() == TCPX_OK, "nothing is wrong");

  tcpx::Transfer moved = std::move(receive);
  throws(TCPX_ERR_HANDLE, [&] { receive.postRecv(target, 0, 1, 3); });
  require(moved.release() == TCPX_OK && moved.release() == TCPX_OK, "released, twice");
  auto closed = std::async(std::launch::async, [&] { return left.close(); });
  require(right.close() == TCPX_OK && closed.get() == TCPX_OK, "both ends close");
  require(right.close() == TCPX_OK, "closing again changes nothing");
  auto gone = std::async(std::launch::async, [&] { return left.destroy(); });
  require(right.destroy() == TCPX_OK && gone.get() == TCPX_OK, "ended");
  throws(TCPX_ERR_HANDLE, [&] { right.listen(); }, "");
  // Either end may have been the first to say goodbye.
  int status = TCPX_OK;
  try {
    send.postSend(source, 0, 1, 1);
  } catch (const tcpx::Error& error) {
    status = error.status();
  }
  require(status == TCPX_ERR_CLOSED || status == TCPX_ERR_PEER_GONE, "the session of the transfer is over");
}

void descriptors() {
  tcpx::MemoryDescriptor descriptor;
  descriptor.base_addr = 0x7000;
  descriptor.size = 4096;
  descriptor.ptr_type = TCPX_PTR_CUDA;
  const tcpx::MemoryDescriptor read = tcpx::MemoryDescriptor::deserialize(descriptor.serialize());
  require(read.base_addr == 0x7000 && read.size == 4096 && read.ptr_type == TCPX_PTR_CUDA, "round trip");
  require(tcpx::MemoryDescriptor::deserialize("28672,4096,2").base_addr == 0x7000, "text is read too");
  throws(TCPX_ERR_DESCRIPTOR, [] { tcpx::MemoryDescriptor::deserialize("28672,4096"); });
  throws(TCPX_ERR_DESCRIPTOR, [] { tcpx::MemoryDescriptor().serialize(); });
}

}  // namespace

int main() {
  try {
    sessions();
    descriptors();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::puts("PASSED");
  return 0;
}
