// A forked child that only ends: its destructors and static objects are those of the parent, which
// goes on.
#include "tcpx_p2p.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define REQUIRE(condition)                                              \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::fprintf(stderr, "%d: not true: %s\n", __LINE__, #condition); \
      std::_Exit(1);                                                    \
    }                                                                   \
  } while (0)

namespace {

constexpr unsigned kChildSeconds = 240;

tcpx_session_options options(int progress_thread) {
  tcpx_session_options options = tcpx::defaultOptions();
  options.progress_thread = progress_thread;
  return options;
}

struct Ends {
  explicit Ends(int progress_thread) : left(options(progress_thread)), right(options(progress_thread)) {
    right.loadRemoteConnInfo("left", left.listen());
    std::thread accepting([this] { left.accept("right"); });
    right.connect("left");
    accepting.join();
    to = left.registerMemory(received.data(), received.size(), TCPX_PTR_CUDA, true);
    from = right.registerMemory(sent.data(), sent.size(), TCPX_PTR_CUDA, false);
    in = left.transfer("right");
    out = right.transfer("left");
  }

  std::vector<char> sent = std::vector<char>(1 << 16, 'a'), received = std::vector<char>(1 << 16);
  tcpx::Session left, right;
  uint64_t to = 0, from = 0;
  tcpx::Transfer in, out;
};

std::unique_ptr<Ends> ends;  // static: exit() ends it

void child(bool calls) {
  alarm(kChildSeconds);
  if (calls) {
    try {
      ends->left.destroy();
      REQUIRE(!"destroy() of the parent's session");
    } catch (const tcpx::Error& error) {
      REQUIRE(error.status() == TCPX_ERR_FORKED && std::strcmp(error.id(), "TCPX-827") == 0);
    }
    try {
      tcpx::Session own(TCPX_GPU_NONE, 2);
      REQUIRE(!"a session of its own");
    } catch (const tcpx::Error& error) {
      REQUIRE(error.status() == TCPX_ERR_FORKED);
    }
    tcpx::Transfer local = std::move(ends->in);
  }
  std::exit(0);
}

void end_children(int progress_thread) {
  ends = std::make_unique<Ends>(progress_thread);
  ends->in.postRecv(ends->to, 0, ends->received.size(), 1);
  for (const bool calls : {false, true}) {
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) child(calls);
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
  }
  ends->out.postSend(ends->from, 0, ends->sent.size(), 1);
  std::thread sending([] { REQUIRE(ends->out.wait() == TCPX_OK); });
  REQUIRE(ends->in.wait() == TCPX_OK);
  sending.join();
  REQUIRE(ends->received == ends->sent);
  std::thread leaving([] { ends->right.close(); });
  ends->left.close();
  leaving.join();
  ends.reset();
}

}  // namespace

int main() {
  end_children(0);
  end_children(1);
  std::puts("PASSED");
  return 0;
}
