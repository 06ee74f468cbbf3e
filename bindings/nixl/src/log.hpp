/* Lines on standard error, beside NIXL's own, by NIXL_LOG_LEVEL. */
#ifndef TCPX_NIXL_LOG_HPP
#define TCPX_NIXL_LOG_HPP

#include <string>

#include "nixl_abi.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

/* Has what tcpx logs written there too. Once in a process; further calls change nothing. */
void startLog();

/* Writes a line, if NIXL_LOG_LEVEL lets it. */
void log(int level, const std::string& line);

/* If a call of tcpx has failed: says what was tried and why it failed. Returns NIXL's number. */
nixl_status_t report(tcpx_status status, const std::string& what, int level = TCPX_LOG_ERROR);

/* What an operation has ended with. */
std::string errorText(tcpx_operation operation);

}  // namespace tcpx_nixl

#endif
