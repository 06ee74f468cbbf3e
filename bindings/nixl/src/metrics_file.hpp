/* A page of metrics in a file, for `tcpx top` and Prometheus's node_exporter. */
#ifndef TCPX_NIXL_METRICS_FILE_HPP
#define TCPX_NIXL_METRICS_FILE_HPP

#include <sys/types.h>

#include <memory>
#include <string>

#include "tcpx_p2p.h"

namespace tcpx_nixl {

/* The folder that TCPX_METRICS_DIR names, or nothing. */
std::string metricsFolder();

/*
 * Writes the metrics of a session once in a second to FOLDER/tcpx-PID-NUMBER.prom, by renaming: a
 * reader gets a whole page. A thread of its own does so, which no transfer waits for. A page that
 * cannot be written is a line in the log, once; the next second tries again.
 */
class MetricsFile {
 public:
  /* Throws std::system_error where the system has no more threads. */
  MetricsFile(tcpx_session session, const std::string& folder);
  /* Removes the file. Waits for the thread for a second at most: a folder may hang. */
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

 private:
  struct State;

  std::shared_ptr<State> state_;
  pid_t owner_; /* a forked child has no such thread, and leaves the file alone */
};

}  // namespace tcpx_nixl

#endif
