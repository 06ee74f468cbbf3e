#include "peer_names.hpp"

#include <cstddef>
#include <utility>

namespace tcpx_nixl {
namespace {

/* tcpx takes 55 bytes of a peer's name; a number follows. */
constexpr std::size_t kMostPlain = 32;

}  // namespace

std::string plainName(const std::string& agent) {
  std::string plain = agent.substr(0, kMostPlain);
  for (char& letter : plain) {
    const bool fits = letter > ' ' && letter <= '~' && letter != '/' && letter != '#';
    if (!fits) letter = '_';
  }
  return plain;
}

std::string PeerNames::make(const std::string& agent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return plainName(agent) + "#" + std::to_string(++made_);
}

void PeerNames::set(const std::string& agent, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  names_[agent] = name;
}

std::optional<std::string> PeerNames::remove(const std::string& agent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto known = names_.extract(agent);
  if (known.empty()) return std::nullopt;
  return std::move(known.mapped());
}

std::optional<std::string> PeerNames::find(const std::string& agent) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = names_.find(agent);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tcpx_nixl
