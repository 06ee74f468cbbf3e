/* The parts of the backend that need neither NIXL nor tcpx. */
#include <cstdio>
#include <cstdlib>
#include <string>

#include "envelope.hpp"
#include "peers.hpp"
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
  tcpx_nixl::Peers peers;
  const auto first = peers.add("decode", "info 1");
  require(first.isNew && peers.find("decode") == first.text, "a peer is found by its name");
  const auto again = peers.add("decode", "info 1");
  require(!again.isNew && again.text == first.text, "the same connection has the same name");
  const auto second = peers.add("decode", "info 2");
  require(second.isNew && second.text != first.text, "one that was started again has another");
  require(peers.remove("decode") == second.text, "it is forgotten");
  require(!peers.find("decode") && !peers.remove("decode"), "and not known any more");
  require(peers.add("other", "info 2").text == second.text, "its connection is");
  peers.undo("other", "info 2");
  require(!peers.find("other") && peers.add("other", "info 2").isNew, "unless it never was");
}

}  // namespace

int main() {
  envelopes();
  names();
  std::puts("ok units");
}
