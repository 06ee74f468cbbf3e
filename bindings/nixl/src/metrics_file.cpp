#include "metrics_file.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <thread>

#include "log.hpp"

/* The standard library's headers count references without atomics while a process has one thread,
 * as this variable of glibc 2.32 says. An older glibc lacks it, so the plugin has its own, which
 * always says that there may be several. */
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;

namespace tcpx_nixl {
namespace {

constexpr std::chrono::seconds kInterval{1};
/* Room for what grows between two calls. */
constexpr std::size_t kRoom = 4096;

/* By the system's clock: a wait by the steady one takes a later glibc than this file may need. */
std::chrono::system_clock::time_point nextTime() {
  return std::chrono::system_clock::now() + kInterval;
}

/* Of this process; each agent has a file. */
std::atomic<unsigned> number{0};

/* Returns the page, or nothing when the session has ended. */
std::string pageOf(tcpx_session session) {
  std::string text;
  std::size_t bytes = 0;
  tcpx_status status = TCPX_ERR_BUFFER_TOO_SMALL;
  while (status == TCPX_ERR_BUFFER_TOO_SMALL) {
    text.resize(bytes + kRoom);
    status = tcpx_metrics_text(&session, 1, text.data(), text.size(), &bytes);
  }
  text.resize(status == TCPX_OK ? bytes - 1 : 0);
  return text;
}

}  // namespace

std::string metricsFolder() {
  const char* folder = std::getenv("TCPX_METRICS_DIR");
  return folder ? folder : "";
}

struct MetricsFile::State {
  State(tcpx_session session, const std::string& folder) : session(session) {
    const std::string name =
        "tcpx-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".prom";
    path = folder + "/" + name;
    /* Hidden and named otherwise, so that no collector reads it before it is whole. */
    unfinished = folder + "/." + name + ".part";
  }

  void write() {
    const std::string page = pageOf(session);
    if (page.empty()) return;
    errno = 0;
    std::ofstream file(unfinished, std::ios::trunc);
    file << page;
    file.close();
    if (file && std::rename(unfinished.c_str(), path.c_str()) == 0) return;
    const std::string why = std::strerror(errno);
    std::remove(unfinished.c_str());
    if (!hasFailed) log(TCPX_LOG_WARN, "TCPX_METRICS_DIR: " + path + ": " + why);
    hasFailed = true;
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!isStopped) {
      lock.unlock();
      try {
        write();
      } catch (const std::exception& error) {
        log(TCPX_LOG_WARN, std::string("TCPX_METRICS_DIR: ") + error.what());
      }
      lock.lock();
      changed.wait_until(lock, nextTime(), [this] { return isStopped; });
    }
    lock.unlock();
    std::remove(path.c_str());
    lock.lock();
    hasEnded = true;
    changed.notify_all();
  }

  const tcpx_session session;
  std::string path, unfinished;
  bool hasFailed = false; /* of the thread alone */
  std::mutex mutex;
  std::condition_variable changed;
  bool isStopped = false, hasEnded = false;
};

MetricsFile::MetricsFile(tcpx_session session, const std::string& folder)
    : state_(std::make_shared<State>(session, folder)), owner_(getpid()) {
  std::thread([state = state_] { state->run(); }).detach();
}

MetricsFile::~MetricsFile() {
  if (getpid() != owner_) {
    /* The thread of the parent may have held the lock, and waited: nothing of it is touched. */
    new std::shared_ptr<State>(state_);
    return;
  }
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->isStopped = true;
  state_->changed.notify_all();
  state_->changed.wait_until(lock, nextTime(), [this] { return state_->hasEnded; });
}

}  // namespace tcpx_nixl
