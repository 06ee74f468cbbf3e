/* What has become of a call of tcpx, in NIXL's numbers. */
#ifndef TCPX_NIXL_STATUS_HPP
#define TCPX_NIXL_STATUS_HPP

#include "nixl_abi.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

/* TCPX_OK is NIXL_SUCCESS. Whatever ends a peer, or makes what was known of its memory wrong, is
 * NIXL_ERR_REMOTE_DISCONNECT: its metadata has to be loaded again. */
nixl_status_t statusOf(tcpx_status status);

}  // namespace tcpx_nixl

#endif
