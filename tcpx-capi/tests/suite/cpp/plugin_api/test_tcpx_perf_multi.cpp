// The second program of the plugin API's design, as it stands there. What it leaves out is filled in:
// the includes, main's parameters, and what lies between "filled in" and "until here".
#include <cstring>
#include <string>

#include "cuda_runtime.h"
#include "rendezvous.h"
#include "tcpx_session.h"
#include "tcpx_transfer.h"

int main(int argc, char** argv) {
  // filled in: the arguments
  const bool is_server = argc > 1 && strcmp(argv[1], "server") == 0;
  const int gpu_id = 0;
  const int num_channels = 4;
  const int iterations = 5;
  const size_t test_size = 3 << 20;
  const size_t chunk_bytes = 512 << 10;
  int tag = 0;
  stand_in_fills = !is_server;
  void* buffer = nullptr;
  if (cudaMalloc(&buffer, test_size) != cudaSuccess) return 1;
  void* const recv_buf = buffer;
  void* const send_buf = buffer;
  // Frees it when the sessions have ended, which checks it.
  const struct Owner {
    void* buffer;
    ~Owner() { cudaFree(buffer); }
  } owner{buffer};
  int bootstrap_fd = -1;
  // until here

  if (is_server) {
    TcpxSession session(gpu_id, num_channels);
    std::string conn_info = session.listen();

    // filled in: the bootstrap
    accept_in_place(bootstrap_fd);
    if (bootstrap_send(bootstrap_fd, conn_info.data(), conn_info.size()) != 0) return 1;
    // until here

    session.accept("client");

    // Register memory
    uint64_t recv_mem_id = session.registerMemory(recv_buf, test_size, NCCL_PTR_CUDA, true);

    for (int iter = 0; iter < iterations; ++iter) {
      auto* xfer = session.createTransfer("client");

      // Post all recvs
      for (size_t offset = 0; offset < test_size; offset += chunk_bytes) {
        xfer->postRecv(recv_mem_id, offset, chunk_bytes, tag++);
      }

      xfer->wait();
      xfer->release();
    }
  } else {
    TcpxSession session(gpu_id, num_channels);

    // filled in: the bootstrap
    connect_in_place(bootstrap_fd, argv[2], argv[3]);
    char bytes[4096];
    const long size = bootstrap_receive(bootstrap_fd, bytes, sizeof bytes);
    if (size < 0) return 1;
    const std::string conn_info(bytes, static_cast<size_t>(size));
    // until here

    session.loadRemoteConnInfo("server", conn_info);
    session.connect("server");

    // Register memory
    uint64_t send_mem_id = session.registerMemory(send_buf, test_size, NCCL_PTR_CUDA, false);

    for (int iter = 0; iter < iterations; ++iter) {
      auto* xfer = session.createTransfer("server");

      // Post all sends
      for (size_t offset = 0; offset < test_size; offset += chunk_bytes) {
        xfer->postSend(send_mem_id, offset, chunk_bytes, tag++);
      }

      xfer->wait();
      xfer->release();
    }
  }

  return 0;
}
