// A server and a client as a program with raw CUDA pointers writes them: transfers are made with
// new, and every object is ended by hand. Ordinary memory stands in for CUDA's.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bootstrap.h"
#include "tcpx_p2p.hpp"

using TcpxSession = tcpx::Session;
constexpr int NCCL_PTR_CUDA = TCPX_PTR_CUDA;
// Ordinary memory that stands in for the GPU's.
constexpr int GPU = TCPX_GPU_NONE;
static int cudaMalloc(void** address, size_t bytes) { return (*address = std::calloc(1, bytes)) == nullptr; }
static void cudaFree(void* address) { std::free(address); }

static const char PAYLOAD[] = "Hello from TCPX client!";

int main(int argc, char** argv) {
  bool is_server = (argc > 1 && strcmp(argv[1], "server") == 0);

  if (is_server) {
    TcpxSession server(GPU, 2);

    std::string conn_info = server.listen();

    int listen_fd = bootstrap_listen(0);
    int bootstrap_fd = bootstrap_accept(listen_fd);
    if (bootstrap_fd < 0) return 1;
    send(bootstrap_fd, conn_info.data(), conn_info.size(), 0);

    char ack[4];
    recv(bootstrap_fd, ack, 4, 0);

    server.accept("client");

    void* recv_buf = nullptr;
    if (cudaMalloc(&recv_buf, 1024) != 0) return 1;
    uint64_t mem_id = server.registerMemory(recv_buf, 1024, NCCL_PTR_CUDA, true);

    auto* xfer = server.createTransfer("client");
    xfer->postRecv(mem_id, 0, 1024, 0);

    xfer->wait();

    bool is_right = std::memcmp(recv_buf, PAYLOAD, sizeof PAYLOAD) == 0;

    xfer->release();
    delete xfer;

    server.deregisterMemory(mem_id);
    cudaFree(recv_buf);
    close(bootstrap_fd);
    close(listen_fd);
    std::puts(is_right ? "PASSED" : "the payload is wrong");

  } else {
    TcpxSession client(GPU, 2);

    int bootstrap_fd = bootstrap_connect(argv[2], argv[3]);
    if (bootstrap_fd < 0) return 1;

    char conn_info_buf[1024];
    int len = static_cast<int>(recv(bootstrap_fd, conn_info_buf, 1024, 0));
    if (len < 0) return 1;
    std::string conn_info(conn_info_buf, static_cast<size_t>(len));

    client.loadRemoteConnInfo("server", conn_info);
    client.connect("server");

    send(bootstrap_fd, "ACK", 4, 0);

    void* send_buf = nullptr;
    if (cudaMalloc(&send_buf, 1024) != 0) return 1;
    std::memcpy(send_buf, PAYLOAD, sizeof PAYLOAD);
    uint64_t mem_id = client.registerMemory(send_buf, 1024, NCCL_PTR_CUDA, false);

    auto* xfer = client.createTransfer("server");
    xfer->postSend(mem_id, 0, 1024, 0);

    xfer->wait();

    xfer->release();
    delete xfer;

    client.deregisterMemory(mem_id);
    cudaFree(send_buf);
    close(bootstrap_fd);
    std::puts("PASSED");
  }

  return 0;
}
