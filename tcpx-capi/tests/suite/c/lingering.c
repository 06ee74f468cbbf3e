/* A comm that takes long to close: a session is not destroyed while the plugin may still use registered memory. */
#include "expect.h"

/* More than sockets hold. */
static char memory[2][64 << 20];

static tcpx_session session(void) {
  tcpx_session made;
  tcpx_session_options options;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.close_timeout_ms = 500;
  options.progress_thread = 0;
  OK(tcpx_session_create(&options, &made));
  return made;
}

int main(void) {
  two_sessions sessions = {session(), session()};
  char info[4096];
  size_t size = 0;
  uint64_t here, there;
  tcpx_transfer receive, send;
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  pthread_t thread;
  int lingering = 0;
  tcpx_status status;
  OK(tcpx_session_listen(sessions.left, info, sizeof info, &size));
  OK(tcpx_session_load_remote_conn_info(sessions.right, "left", info, size));
  TRUE(pthread_create(&thread, NULL, accept_right, &sessions) == 0);
  OK(tcpx_session_connect(sessions.right, "left"));
  TRUE(pthread_join(thread, NULL) == 0);
  OK(tcpx_session_register_memory(sessions.left, memory[0], sizeof memory[0], TCPX_PTR_HOST, 1, &here));
  OK(tcpx_session_register_memory(sessions.right, memory[1], sizeof memory[1], TCPX_PTR_HOST, 0, &there));
  OK(tcpx_session_create_transfer(sessions.left, "right", &receive));
  OK(tcpx_session_create_transfer(sessions.right, "left", &send));
  OK(tcpx_transfer_post_recv(receive, here, 0, sizeof memory[0], 1));
  OK(tcpx_transfer_post_send(send, there, 0, sizeof memory[1], 1));
  while (counts.chunks_posted == 0) {
    OK(tcpx_session_progress(sessions.right, NULL));
    OK(tcpx_session_progress(sessions.left, NULL));
    OK(tcpx_transfer_get_counts(receive, &counts));
  }
  TRUE(counts.chunks_done < counts.chunks_posted);

  /* The right end makes no progress from here on, so the receive does not end with the goodbye. The first comm that
     closes, which is one of the left end's, is late. */
  while ((status = tcpx_session_destroy(sessions.left)) == TCPX_ERR_TIMEOUT) {
    TRUE(strstr(tcpx_last_error(), "right") != NULL);
    TRUE(strstr(tcpx_last_error(), "must stay") != NULL);
    EXPECT(TCPX_ERR_CLOSED, tcpx_session_connect(sessions.left, "right"));
    lingering++;
  }
  OK(status);
  TRUE(lingering > 0);
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_destroy(sessions.left));
  OK(tcpx_session_destroy(sessions.right));
  printf("PASSED\n");
  return 0;
}
