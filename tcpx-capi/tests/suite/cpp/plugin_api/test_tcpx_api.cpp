// The first program of the plugin API's design, as it stands there. What it leaves out is filled in:
// the includes, and the two lines that begin with "filled in".
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "cuda_runtime.h"
#include "rendezvous.h"
#include "tcpx_memory_desc.h"
#include "tcpx_session.h"
#include "tcpx_transfer.h"

int main(int argc, char** argv) {
  bool is_server = (argc > 1 && strcmp(argv[1], "server") == 0);

  if (is_server) {
    // ========== SERVER ==========
    TcpxSession server(0, 2);

    // 1. Listen
    std::string conn_info = server.listen();

    // 2. Send it to the client
    int bootstrap_fd = socket(AF_INET, SOCK_STREAM, 0);
    /* filled in */ accept_in_place(bootstrap_fd);
    send(bootstrap_fd, conn_info.data(), conn_info.size(), 0);

    // 3. Wait for the client
    char ack[4];
    recv(bootstrap_fd, ack, 4, 0);

    // 4. Accept
    server.accept("client");

    // 5. Register memory
    void* recv_buf = nullptr;
    cudaMalloc(&recv_buf, 1024);
    uint64_t mem_id = server.registerMemory(recv_buf, 1024, NCCL_PTR_CUDA, true);

    // 6. Begin
    auto* xfer = server.createTransfer("client");
    xfer->postRecv(mem_id, 0, 1024, 0);

    // 7. Wait
    xfer->wait();

    // 8. Clean up
    xfer->release();
    delete xfer;

    server.deregisterMemory(mem_id);
    cudaFree(recv_buf);
    close(bootstrap_fd);

  } else {
    // ========== CLIENT ==========
    TcpxSession client(0, 2);

    // 1. Connect to the server's bootstrap socket
    int bootstrap_fd = socket(AF_INET, SOCK_STREAM, 0);
    /* filled in */ connect_in_place(bootstrap_fd, argv[2], argv[3]), stand_in_fills = true;

    // 2. Receive the server's connection info
    char conn_info_buf[1024];
    int len = recv(bootstrap_fd, conn_info_buf, 1024, 0);
    std::string conn_info(conn_info_buf, len);

    // 3. Load it and connect
    client.loadRemoteConnInfo("server", conn_info);
    client.connect("server");

    // 4. Say so
    send(bootstrap_fd, "ACK", 4, 0);

    // 5. Register memory
    void* send_buf = nullptr;
    cudaMalloc(&send_buf, 1024);
    uint64_t mem_id = client.registerMemory(send_buf, 1024, NCCL_PTR_CUDA, false);

    // 6. Begin
    auto* xfer = client.createTransfer("server");
    xfer->postSend(mem_id, 0, 1024, 0);

    // 7. Wait
    xfer->wait();

    // 8. Clean up
    xfer->release();
    delete xfer;

    client.deregisterMemory(mem_id);
    cudaFree(send_buf);
    close(bootstrap_fd);
  }

  return 0;
}
