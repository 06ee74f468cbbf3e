/*
 * Event loop over epoll for the descriptors of sessions. It names tcpx::Session and needs no more:
 * tcpx_fwd.hpp is enough, and headers of a program stay independent of tcpx_p2p.hpp.
 */
#ifndef TCPX_EXAMPLES_EVENT_LOOP_HPP
#define TCPX_EXAMPLES_EVENT_LOOP_HPP

#include <tcpx_fwd.hpp>

class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  /* Watches the descriptor of a session, which the session keeps. */
  void watch(const tcpx::Session& session);

  /* Sleeps until a watched descriptor is readable. Returns false after `timeout_ms` without one. */
  bool wait(int timeout_ms);

 private:
  int epoll_;
};

#endif
