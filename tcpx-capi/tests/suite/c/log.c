/* Log lines reach the callback with its context, up to the level, and calls from inside are refused. */
#include "expect.h"

typedef struct {
  pthread_mutex_t lock;
  int lines;
  int highest;
  int refused;
  int described;
} log_book;

static void record_line(void *context, int32_t level, const char *target, const char *message) {
  log_book *book = (log_book *)context;
  tcpx_session session = {0};
  size_t size = 0;
  TRUE(strncmp(target, "tcpx", 4) == 0 && strlen(message) > 0);
  pthread_mutex_lock(&book->lock);
  ++book->lines;
  if (strstr(message, "peer is up") && strstr(message, " nics=") && strstr(message, " peer_nics=") &&
      strstr(message, " zero_copy=") && strstr(message, " one_sided=")) {
    ++book->described;
  }
  if (level > book->highest) book->highest = level;
  if (tcpx_session_create(NULL, &session) == TCPX_ERR_IN_CALLBACK &&
      tcpx_gpu_count(&size) == TCPX_ERR_IN_CALLBACK &&
      tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF) == TCPX_ERR_IN_CALLBACK) {
    ++book->refused;
  }
  pthread_mutex_unlock(&book->lock);
}

static void *replace(void *book) {
  int i;
  for (i = 0; i < 200; ++i) OK(tcpx_set_log_callback(i % 2 == 0 ? record_line : NULL, book, TCPX_LOG_TRACE));
  return NULL;
}

int main(void) {
  log_book quiet = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, 0};
  log_book *loud = (log_book *)calloc(1, sizeof *loud);
  pthread_t thread;
  int before;
  TRUE(loud != NULL && pthread_mutex_init(&loud->lock, NULL) == 0);
  OK(tcpx_set_log_callback(record_line, &quiet, TCPX_LOG_INFO));
  destroy_sessions(connect_sessions());
  TRUE(quiet.lines > 0 && quiet.refused == quiet.lines && quiet.highest <= TCPX_LOG_INFO);
  TRUE(quiet.described == 2); /* each end says what carries its peer's bytes */

  OK(tcpx_set_log_callback(record_line, loud, TCPX_LOG_DEBUG));
  before = quiet.lines;
  destroy_sessions(connect_sessions());
  TRUE(loud->lines > 0 && loud->highest == TCPX_LOG_DEBUG && quiet.lines == before);

  /* Replaced while others log: after the last replacement the book is free. */
  TRUE(pthread_create(&thread, NULL, replace, loud) == 0);
  destroy_sessions(connect_sessions());
  TRUE(pthread_join(thread, NULL) == 0);
  OK(tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF));
  TRUE(loud->refused == loud->lines);
  pthread_mutex_destroy(&loud->lock);
  free(loud);
  destroy_sessions(connect_sessions());
  printf("PASSED\n");
  return 0;
}
