/* The parts of the backend that need neither NIXL nor tcpx. */
#include <cstdio>
#include <cstdlib>
#include <string>

#include "envelope.hpp"
#include "peer_names.hpp"
#include "tcpx_p2p.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

void envelopes() {
  using tcpx_nixl::seal;
  using tcpx_nixl::unseal;
  const std::string zeros("a\0b", 3);
  for (const std::string& agent : {std::string(), std::string("decode"), std::string(60000, 'n')}) {
    for (const std::string& message : {std::string(), zeros, std::string(5000, 'm')}) {
      const auto sealed = seal(agent, message);
      require(sealed.has_value(), "what fits is sealed");
      const auto opened = unseal(sealed->data(), sealed->size());
      require(opened && opened->first == agent && opened->second == message, "and comes out");
      /* Cut off inside the name, it is none. */
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, agent.size() + 1}) {
        require(!unseal(sealed->data(), count), "a part is no envelope");
      }
    }
  }
  const std::size_t room = TCPX_MAX_NOTIFICATION_BYTES - 2;
  require(seal("name", std::string(room - 4, 'm')).has_value(), "the longest fits");
  require(!seal("name", std::string(room - 3, 'm')), "a longer one does not");
  require(!seal(std::string(room + 1, 'n'), ""), "nor a name that is too long");
}

void names() {
  require(tcpx_nixl::plainName("decode-1.x") == "decode-1.x", "plain names stay");
  require(tcpx_nixl::plainName("a/gpu0 #\n\xc3\xbc") == "a_gpu0_____", "others do not");
  require(tcpx_nixl::plainName(std::string(200, 'x')).size() == 32, "nor long ones");
  tcpx_nixl::PeerNames peers;
  require(!peers.find("decode") && !peers.remove("decode"), "no peer is known");
  const std::string first = peers.make("decode"), second = peers.make("decode");
  require(first != second, "an agent that becomes known has a name of its own");
  peers.set("decode", first);
  peers.set("other", first);
  require(peers.find("decode") == first, "it is found");
  peers.set("decode", second);
  require(peers.find("decode") == second, "one that was started again has another");
  require(peers.find("other") == first, "others have theirs");
  require(peers.remove("decode") == second && !peers.find("decode"), "it is forgotten");
}

}  // namespace

int main() {
  envelopes();
  names();
  std::puts("ok units");
}
