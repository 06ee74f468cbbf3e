#include "status.hpp"

namespace tcpx_nixl {

nixl_status_t statusOf(tcpx_status status) {
  switch (status) {
    case TCPX_OK:
      return NIXL_SUCCESS;
    case TCPX_ERR_NULL:
    case TCPX_ERR_ARGUMENT:
    case TCPX_ERR_UNKNOWN_MEMORY:
    case TCPX_ERR_MEMORY:
      return NIXL_ERR_INVALID_PARAM;
    case TCPX_ERR_CONN_INFO:
    case TCPX_ERR_DESCRIPTOR:
      return NIXL_ERR_MISMATCH;
    case TCPX_ERR_UNAVAILABLE:
      return NIXL_ERR_NOT_SUPPORTED;
    case TCPX_ERR_UNKNOWN_PEER:
      return NIXL_ERR_NOT_FOUND;
    case TCPX_ERR_PEER_STATE:
    case TCPX_ERR_HANDSHAKE:
    case TCPX_ERR_PROTOCOL:
    case TCPX_ERR_PEER_GONE:
    case TCPX_ERR_TIMEOUT:
    case TCPX_ERR_CLOSED:
    case TCPX_ERR_REMOTE_MEMORY:
    case TCPX_ERR_DATA:
    case TCPX_ERR_IO:
      return NIXL_ERR_REMOTE_DISCONNECT;
    default:
      return NIXL_ERR_BACKEND;
  }
}

}  // namespace tcpx_nixl
