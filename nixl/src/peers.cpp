#include "peers.hpp"

#include <cstddef>

namespace tcpx_nixl {
namespace {

/* tcpx takes 55 bytes of a group's name; a number follows. */
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

Peers::Name Peers::add(const std::string& agent, const std::string& info) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [place, isNew] = nameOfInfo_.try_emplace(info);
  if (isNew) place->second = plainName(agent) + "#" + std::to_string(++made_);
  nameOfAgent_[agent] = place->second;
  return {place->second, isNew};
}

void Peers::undo(const std::string& agent, const std::string& info) {
  const std::lock_guard<std::mutex> lock(mutex_);
  nameOfAgent_.erase(agent);
  nameOfInfo_.erase(info);
}

std::optional<std::string> Peers::remove(const std::string& agent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = nameOfAgent_.find(agent);
  if (found == nameOfAgent_.end()) return std::nullopt;
  std::string name = std::move(found->second);
  nameOfAgent_.erase(found);
  return name;
}

std::optional<std::string> Peers::find(const std::string& agent) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = nameOfAgent_.find(agent);
  if (found == nameOfAgent_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tcpx_nixl
