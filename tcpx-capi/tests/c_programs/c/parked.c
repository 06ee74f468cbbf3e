/* A comm that takes long to close: a session is not destroyed while the plugin may still use registered memory. */
#include "expect.h"

static char memory[1 << 16];

static tcpx_session session(void) {
  tcpx_session made;
  tcpx_session_options options;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.close_timeout_ms = 500;
  OK(tcpx_session_create(&options, &made));
  return made;
}

int main(void) {
  session_pair pair = {session(), session()};
  char info[4096];
  size_t size = 0;
  uint64_t id;
  pthread_t thread;
  int parked = 0;
  tcpx_status status;
  OK(tcpx_session_listen(pair.left, info, sizeof info, &size));
  OK(tcpx_session_load_remote_conn_info(pair.right, "left", info, size));
  TRUE(pthread_create(&thread, NULL, accept_right, &pair) == 0);
  OK(tcpx_session_connect(pair.right, "left"));
  TRUE(pthread_join(thread, NULL) == 0);
  OK(tcpx_session_register_memory(pair.left, memory, sizeof memory, TCPX_PTR_HOST, 1, &id));

  /* The first comm that closes, which is one of these, is late. */
  while ((status = tcpx_session_destroy(pair.left)) == TCPX_ERR_TIMEOUT) {
    TRUE(strstr(tcpx_last_error(), "right") != NULL);
    TRUE(strstr(tcpx_last_error(), "must stay") != NULL);
    EXPECT(TCPX_ERR_CLOSED, tcpx_session_connect(pair.left, "right"));
    parked++;
  }
  OK(status);
  TRUE(parked > 0);
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_destroy(pair.left));
  OK(tcpx_session_destroy(pair.right));
  printf("PASSED\n");
  return 0;
}
