/*
 * A notification as it travels: the name of the agent that sends it, then its bytes. tcpx knows its
 * peers by names of its own, which are short and of this process; NIXL wants the agent's.
 *
 *   2 bytes   how long the name is, the lower byte first
 *   name
 *   message
 */
#ifndef TCPX_NIXL_ENVELOPE_HPP
#define TCPX_NIXL_ENVELOPE_HPP

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace tcpx_nixl {

/* Nothing when the two are too long together for a notification. */
std::optional<std::string> seal(const std::string& agent, const std::string& message);

/* Agent and message; nothing when the bytes are no envelope. */
std::optional<std::pair<std::string, std::string>> unseal(const char* bytes, std::size_t count);

}  // namespace tcpx_nixl

#endif
