/*
 * What tcpx calls the agents. An agent that is started again keeps its name in NIXL and is another
 * session of tcpx. So every connection info has a name of its own here: "decode#3".
 */
#ifndef TCPX_NIXL_PEERS_HPP
#define TCPX_NIXL_PEERS_HPP

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace tcpx_nixl {

/* An agent's name, as short and plain as tcpx wants one. */
std::string plainName(const std::string& agent);

class Peers {
 public:
  struct Name {
    std::string text;
    /* Whether tcpx does not know it yet. */
    bool isNew;
  };

  /* The name for an agent that is reached by this connection info, which it has from now on. The
   * same bytes have the same name each time, so a connection that is there is used again. */
  Name add(const std::string& agent, const std::string& info);

  /* Forgets the agent, as `remove` does, and its connection info. */
  void undo(const std::string& agent, const std::string& info);

  /* The agent is not known any more. Returns the name that it had. */
  std::optional<std::string> remove(const std::string& agent);

  std::optional<std::string> find(const std::string& agent) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::string> nameOfAgent_;
  std::unordered_map<std::string, std::string> nameOfInfo_;
  std::uint64_t made_ = 0;
};

}  // namespace tcpx_nixl

#endif
