/*
 * Names of agents in tcpx. An agent that is started again keeps its name in NIXL and is another
 * session of tcpx. So each time that an agent becomes known it has another name here: "decode#3".
 */
#ifndef TCPX_NIXL_PEER_NAMES_HPP
#define TCPX_NIXL_PEER_NAMES_HPP

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace tcpx_nixl {

/* An agent's name, as short and plain as tcpx wants one. */
std::string plainName(const std::string& agent);

class PeerNames {
 public:
  /* Returns a name for an agent that no agent has had before. */
  std::string make(const std::string& agent);

  /* The agent has this name from now on. */
  void set(const std::string& agent, const std::string& name);

  /* The agent is not known any more. Returns the name that it had. */
  std::optional<std::string> remove(const std::string& agent);

  std::optional<std::string> find(const std::string& agent) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::string> names_;
  std::uint64_t made_ = 0;
};

}  // namespace tcpx_nixl

#endif
