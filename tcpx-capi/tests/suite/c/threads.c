/* Eight threads share a few handles and do everything to them at once: create, use, end, use after the end. */
#include <stdatomic.h>

#include "expect.h"

enum { THREADS = 8, ROUNDS = 400, HANDLES = 4 };

static _Atomic uint64_t sessions[HANDLES];
static _Atomic uint64_t transfers[HANDLES];
static two_sessions connected;
static char memory[THREADS][4096];

static unsigned next_number(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 16;
}

/* Statuses that are fine when another thread may have ended the object, or is using it. */
static void allow(tcpx_status status) {
  switch (status) {
    case TCPX_OK:
    case TCPX_ERR_HANDLE:
    case TCPX_ERR_BUSY:
    case TCPX_ERR_TIMEOUT:
    case TCPX_ERR_CANCELLED:
    case TCPX_ERR_UNKNOWN_MEMORY:
    case TCPX_ERR_MEMORY: /* It is being deregistered. */
    case TCPX_ERR_MEMORY_IN_USE:
      return;
    default:
      fprintf(stderr, "%s: %s\n", tcpx_status_text(status), tcpx_last_error());
      exit(1);
  }
}

static void replace_session(unsigned slot) {
  tcpx_session session = {0};
  size_t size = 0;
  session.id = atomic_exchange(&sessions[slot], 0);
  allow(tcpx_session_listen(session, NULL, 0, &size));
  allow(tcpx_session_destroy(session));
  allow(tcpx_session_destroy(session)); /* twice, or busy twice; the leftovers end below */
  OK(tcpx_session_create(NULL, &session));
  atomic_store(&sessions[slot], session.id);
}

static void use_session(unsigned slot) {
  tcpx_session session;
  size_t size = 0;
  session.id = atomic_load(&sessions[slot]);
  allow(tcpx_session_progress(session, NULL));
  allow(tcpx_session_stats_json(session, NULL, 0, &size));
}

static void replace_transfer(unsigned slot, unsigned thread, unsigned number) {
  tcpx_transfer transfer = {0};
  uint64_t id = 0;
  OK(tcpx_session_register_memory(connected.left, memory[thread], sizeof memory[thread], TCPX_PTR_HOST, 1, &id));
  transfer.id = atomic_load(&transfers[slot]);
  allow(tcpx_transfer_post_send(transfer, id, 0, 100, (int32_t)number));
  allow(tcpx_transfer_wait(transfer, 0));
  allow(tcpx_transfer_cancel(transfer));
  allow(tcpx_session_deregister_memory(connected.left, id));
  transfer.id = atomic_exchange(&transfers[slot], 0);
  allow(tcpx_transfer_release(transfer));
  OK(tcpx_session_create_transfer(connected.left, "right", &transfer));
  transfer.id = atomic_exchange(&transfers[slot], transfer.id);
  allow(tcpx_transfer_release(transfer));
}

static void *work(void *number) {
  unsigned thread = (unsigned)(uintptr_t)number;
  unsigned state = thread + 1;
  int round;
  for (round = 0; round < ROUNDS; ++round) {
    unsigned slot = next_number(&state) % HANDLES;
    switch (next_number(&state) % 8) {
      case 0:
        replace_session(slot);
        break;
      case 1:
      case 2:
      case 3:
        use_session(slot);
        break;
      default:
        replace_transfer(slot, thread, next_number(&state));
    }
  }
  return NULL;
}

/* The text of a failure is the thread's own. */
static void *fail_otherwise(void *unused) {
  tcpx_session none = {0};
  TRUE(tcpx_last_error()[0] == '\0');
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_progress(none, NULL));
  TRUE(strstr(tcpx_last_error(), "session") != NULL);
  return unused;
}

int main(void) {
  pthread_t threads[THREADS];
  unsigned i;
  connected = connect_sessions();
  for (i = 0; i < THREADS; ++i) {
    TRUE(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0);
  }
  for (i = 0; i < THREADS; ++i) TRUE(pthread_join(threads[i], NULL) == 0);
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_accept(connected.left, ""));
  TRUE(pthread_create(&threads[0], NULL, fail_otherwise, NULL) == 0);
  TRUE(pthread_join(threads[0], NULL) == 0);
  TRUE(strstr(tcpx_last_error(), "peer") != NULL);
  destroy_sessions(connected);
  printf("PASSED\n");
  return 0;
}
