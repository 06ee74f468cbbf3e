#include "envelope.hpp"

#include "tcpx_p2p.h"

namespace tcpx_nixl {
namespace {

constexpr std::size_t kLengthBytes = 2;

}  // namespace

std::optional<std::string> seal(const std::string& agent, const std::string& message) {
  if (agent.size() > TCPX_MAX_NOTIFICATION_BYTES - kLengthBytes ||
      message.size() > TCPX_MAX_NOTIFICATION_BYTES - kLengthBytes - agent.size()) {
    return std::nullopt;
  }
  std::string sealed;
  sealed.reserve(kLengthBytes + agent.size() + message.size());
  sealed.push_back(static_cast<char>(agent.size() & 0xff));
  sealed.push_back(static_cast<char>(agent.size() >> 8));
  return sealed.append(agent).append(message);
}

std::optional<std::pair<std::string, std::string>> unseal(const char* bytes, std::size_t count) {
  if (count < kLengthBytes) return std::nullopt;
  const auto* raw = reinterpret_cast<const unsigned char*>(bytes);
  const std::size_t length = raw[0] | static_cast<std::size_t>(raw[1]) << 8;
  if (length > count - kLengthBytes) return std::nullopt;
  const char* name = bytes + kLengthBytes;
  return std::pair(std::string(name, length),
                   std::string(name + length, count - kLengthBytes - length));
}

}  // namespace tcpx_nixl
