/* Children made with fork: refused once there was a session, ordinary before, and harmless however they end. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum {
  BYTES = 1 << 16,
  FORKS = 200,
  RACES = 40,
  /* A child that takes longer hangs, on whatever machine; SIGALRM ends it. */
  CHILD_SECONDS = 240,
  HIGHEST_DESCRIPTOR = 1024
};

static two_sessions sessions;
static tcpx_transfer transfer;
static uint64_t late_id;
static unsigned char sent[BYTES], received[BYTES], late[BYTES];
static atomic_bool is_over;
/* The process whose sessions these are. */
static pid_t owner;

/* Forks. The child does `work` and ends as programs do, with its exit handlers; it must succeed. */
static void in_child(void (*work)(void)) {
  int status = 0;
  pid_t child;
  fflush(stdout);
  child = fork();
  TRUE(child >= 0);
  if (child == 0) {
    alarm(CHILD_SECONDS);
    work();
    exit(0);
  }
  while (waitpid(child, &status, 0) < 0) TRUE(errno == EINTR);
  if (status != 0) fprintf(stderr, "the child ended with status %#x\n", (unsigned)status);
  TRUE(status == 0);
}

static void log_line(void *context, int32_t level, const char *target, const char *message) {
  (void)context, (void)level, (void)target, (void)message;
}

/* Sends `sent` from right to left, where `in` waits for it, and ends `in`. */
static void send_for(two_sessions sessions, tcpx_transfer in, unsigned char seed, int32_t tag) {
  uint64_t from = 0;
  tcpx_transfer out;
  bool complete = false;
  size_t i;
  for (i = 0; i < BYTES; ++i) sent[i] = (unsigned char)(i * 7 + seed);
  OK(tcpx_session_register_memory(sessions.right, sent, BYTES, TCPX_PTR_CUDA, 0, &from));
  OK(tcpx_session_create_transfer(sessions.right, "left", &out));
  OK(tcpx_transfer_post_send(out, from, 0, BYTES, tag));
  while (!complete) {
    OK(tcpx_session_progress(sessions.right, NULL));
    OK(tcpx_transfer_is_complete(in, &complete));
  }
  OK(tcpx_transfer_wait(out, TCPX_WAIT_FOREVER));
  OK(tcpx_transfer_release(out));
  OK(tcpx_transfer_release(in));
  OK(tcpx_session_deregister_memory(sessions.right, from));
}

/* One message from right to left, every byte of it looked at. */
static void exchange(two_sessions sessions, unsigned char seed) {
  uint64_t to = 0;
  tcpx_transfer in;
  memset(received, 0xdd, BYTES);
  OK(tcpx_session_register_memory(sessions.left, received, BYTES, TCPX_PTR_CUDA, 1, &to));
  OK(tcpx_session_create_transfer(sessions.left, "right", &in));
  OK(tcpx_transfer_post_recv(in, to, 0, BYTES, 5));
  send_for(sessions, in, seed, 5);
  TRUE(memcmp(sent, received, BYTES) == 0);
  OK(tcpx_session_deregister_memory(sessions.left, to));
}

/* A process of its own: everything works. */
static void use_the_library(void) {
  two_sessions own = connect_sessions();
  exchange(own, 3);
  destroy_sessions(own);
}

#define REFUSED(call)                                                   \
  do {                                                                  \
    EXPECT(TCPX_ERR_FORKED, call);                                      \
    TRUE(strstr(tcpx_last_error(), "forked") != NULL);                  \
    TRUE(strcmp(tcpx_last_error_id(), "TCPX-827") == 0);                \
  } while (0)

/* Every function that returns a status. Only destroy and release are left for the exit handler, where programs have
 * them. */
static void call_everything(void) {
  tcpx_session_options options;
  tcpx_memory_descriptor descriptor = {sizeof descriptor, 1, 1, TCPX_PTR_HOST, 0};
  tcpx_session session = {99};
  tcpx_transfer other = {99};
  tcpx_memory_info info = {sizeof info, 0, 0, 0, 0, 0};
  tcpx_session_stats stats;
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  tcpx_nic nic;
  tcpx_post post = {1, 0, 1, 1};
  tcpx_status error = TCPX_OK;
  uint64_t id = 99;
  size_t size = 99;
  tcpx_completion completion;
  tcpx_export_options export_options = {sizeof export_options, 0, 0, TCPX_ACCESS_READ, 0};
  tcpx_remote_memory remote = {0};
  tcpx_operation operation = {99};
  int32_t number = 99;
  char text[64] = "untouched", name[TCPX_MAX_NAME_BYTES + 1] = "untouched";
  tcpx_registration range = {text, sizeof text, TCPX_PTR_HOST, 0};
  bool flag = true;
  stats.size = sizeof stats;
  nic.size = sizeof nic;

  REFUSED(tcpx_session_options_init(&options, sizeof options));
  REFUSED(tcpx_session_create(NULL, &session));
  REFUSED(tcpx_session_listen(sessions.left, text, sizeof text, &size));
  REFUSED(tcpx_session_accept(sessions.left, "x"));
  REFUSED(tcpx_session_load_remote_conn_info(sessions.left, "x", "x", 1));
  REFUSED(tcpx_session_forget_remote_conn_info(sessions.left, "right"));
  REFUSED(tcpx_session_accept_any(sessions.left, name, sizeof name));
  REFUSED(tcpx_session_start_accept(sessions.left, "x"));
  REFUSED(tcpx_session_start_accept_any(sessions.left));
  REFUSED(tcpx_session_poll_accept_any(sessions.left, &flag, name, sizeof name));
  REFUSED(tcpx_session_stop_accept_any(sessions.left));
  REFUSED(tcpx_session_start_connect(sessions.right, "left"));
  REFUSED(tcpx_session_start_disconnect(sessions.right, "left"));
  REFUSED(tcpx_session_peer_state(sessions.left, "right", &number));
  REFUSED(tcpx_session_peer_error(sessions.left, "right", &error, text, sizeof text, &size));
  REFUSED(tcpx_session_event_fd(sessions.left, &number));
  REFUSED(tcpx_session_arm(sessions.left));
  REFUSED(tcpx_session_poll_completions(sessions.left, &completion, sizeof completion, 1, &size));
  REFUSED(tcpx_session_report_peers(sessions.left));
  REFUSED(tcpx_transfer_report_completions(transfer, 1));
  REFUSED(tcpx_transfer_set_timeout(transfer, 1));
  REFUSED(tcpx_session_connect(sessions.right, "left"));
  REFUSED(tcpx_session_progress(sessions.left, &flag));
  REFUSED(tcpx_session_create_transfer(sessions.left, "right", &other));
  REFUSED(tcpx_session_register_memory(sessions.left, text, sizeof text, TCPX_PTR_HOST, 0, &id));
  REFUSED(tcpx_session_register_memory_list(sessions.left, &range, sizeof range, 1, &id));
  REFUSED(tcpx_session_register_memory_on(sessions.left, TCPX_GPU_NONE, text, sizeof text, 0, &id));
  REFUSED(tcpx_session_memory_info(sessions.left, late_id, &info));
  REFUSED(tcpx_session_deregister_memory(sessions.left, late_id));
  REFUSED(tcpx_session_get_stats(sessions.left, &stats));
  REFUSED(tcpx_session_stats_json(sessions.left, text, sizeof text, &size));
  REFUSED(tcpx_metrics_text(&sessions.left, 1, text, sizeof text, &size));
  REFUSED(tcpx_session_nic_count(sessions.left, &size));
  REFUSED(tcpx_session_nic(sessions.left, 0, &nic));
  REFUSED(tcpx_gpu_count(&size));
  REFUSED(tcpx_memory_descriptor_serialize(&descriptor, text, sizeof text, &size));
  REFUSED(tcpx_memory_descriptor_deserialize(text, sizeof text, &descriptor));
  REFUSED(tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF));
  REFUSED(tcpx_set_plugin_log_level(TCPX_LOG_OFF));
  REFUSED(tcpx_transfer_post_send(transfer, late_id, 0, 1, 1));
  REFUSED(tcpx_transfer_post_recv(transfer, late_id, 0, 1, 1));
  REFUSED(tcpx_transfer_post_send_batch(transfer, &post, sizeof(tcpx_post), 1));
  REFUSED(tcpx_transfer_post_recv_batch(transfer, &post, sizeof(tcpx_post), 1));
  REFUSED(tcpx_transfer_is_complete(transfer, &flag));
  REFUSED(tcpx_transfer_wait(transfer, TCPX_WAIT_FOREVER));
  REFUSED(tcpx_transfer_cancel(transfer));
  REFUSED(tcpx_transfer_get_counts(transfer, &counts));
  REFUSED(tcpx_transfer_get_round_counts(transfer, &counts));
  REFUSED(tcpx_transfer_error(transfer, &error, text, sizeof text, &size));
  REFUSED(tcpx_export(sessions.left, late_id, &export_options, text, sizeof text, &size));
  REFUSED(tcpx_unexport(sessions.left, text, sizeof text));
  REFUSED(tcpx_remote_key_info(text, sizeof text, &remote));
  REFUSED(tcpx_operation_prepare(sessions.left, "right", TCPX_READ, NULL, sizeof(tcpx_pair), 0, &operation));
  REFUSED(tcpx_operation_prepare_notification(sessions.left, "right", &operation));
  REFUSED(tcpx_operation_post(operation, NULL, 0));
  REFUSED(tcpx_operation_post_with(operation, NULL));
  REFUSED(tcpx_operation_status(operation, &number, &error));
  REFUSED(tcpx_operation_wait(operation, TCPX_WAIT_FOREVER));
  REFUSED(tcpx_operation_cancel(operation));
  REFUSED(tcpx_operation_error(operation, &error, text, sizeof text, &size));
  REFUSED(tcpx_operation_report_completions(operation, 1));
  REFUSED(tcpx_operation_release(operation));
  REFUSED(tcpx_notify(sessions.left, "right", text, 1));
  REFUSED(tcpx_poll_notifications(sessions.left, NULL, sizeof(tcpx_notification), 0, NULL, 0, &size));
  REFUSED(tcpx_wait_notifications(sessions.left, NULL, sizeof(tcpx_notification), 0, NULL, 0, &size, -1));
  REFUSED(tcpx_session_disconnect(sessions.left, "right"));
  REFUSED(tcpx_session_close(sessions.left));
  TRUE(session.id == 99 && other.id == 99 && id == 99 && size == 99 && flag && strcmp(text, "untouched") == 0);
  TRUE(number == 99 && operation.id == 99 && strcmp(name, "untouched") == 0);
  TRUE(strcmp(tcpx_status_text(TCPX_ERR_FORKED), "called in a forked child") == 0);
  TRUE(tcpx_abi_version() == TCPX_ABI_VERSION && tcpx_version()[0] != '\0');
}

static void grandchild_too(void) {
  call_everything();
  in_child(call_everything);
}

/* As a program cleans up that does not know of its being a child. */
static void clean_up(void) {
  if (getpid() == owner) return;
  REFUSED(tcpx_transfer_release(transfer));
  REFUSED(tcpx_session_destroy(sessions.left));
  REFUSED(tcpx_session_destroy(sessions.right));
}

static void *make_progress(void *unused) {
  while (!is_over) {
    bool complete = false;
    char json[16384];
    size_t size = 0;
    OK(tcpx_session_progress(sessions.left, NULL));
    OK(tcpx_transfer_is_complete(transfer, &complete));
    OK(tcpx_session_stats_json(sessions.right, json, sizeof json, &size));
    TRUE(!complete);
  }
  return unused;
}

static void *exchange_on(void *unused) {
  unsigned char seed = 0;
  while (!is_over) exchange(sessions, ++seed);
  return unused;
}

static void *change_the_log(void *unused) {
  while (!is_over) OK(tcpx_set_log_callback(log_line, NULL, TCPX_LOG_TRACE));
  return unused;
}

/* Whatever lock these threads hold when a child is made, it stays held there. */
static void fork_under_load(void) {
  void *(*const work[])(void *) = {make_progress, exchange_on, change_the_log};
  pthread_t threads[3];
  int i;
  for (i = 0; i < 3; ++i) TRUE(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
  for (i = 0; i < FORKS; ++i) in_child(call_everything);
  is_over = true;
  for (i = 0; i < 3; ++i) TRUE(pthread_join(threads[i], NULL) == 0);
  is_over = false;
}

/* Nothing of the library's is open in a program that a child starts. */
static char *own_path;

static void become_another_program(void) {
  execl(own_path, own_path, "descriptors", (char *)NULL);
  exit(1);
}

static int is_any_descriptor_open(void) {
  int descriptor;
  for (descriptor = 3; descriptor < HIGHEST_DESCRIPTOR; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1) {
      fprintf(stderr, "descriptor %d is open\n", descriptor);
      return 1;
    }
  }
  return 0;
}

/* A parent with sessions. A receive that it posted before waits for its send until all children are gone. */
static void refuse_children(void) {
  owner = getpid();
  TRUE(atexit(clean_up) == 0);
  sessions = connect_sessions();
  OK(tcpx_session_register_memory(sessions.left, late, BYTES, TCPX_PTR_CUDA, 1, &late_id));
  OK(tcpx_session_create_transfer(sessions.left, "right", &transfer));
  OK(tcpx_transfer_post_recv(transfer, late_id, 0, BYTES, 77));
  in_child(grandchild_too);
  in_child(become_another_program);
  fork_under_load();
  send_for(sessions, transfer, 9, 77);
  TRUE(memcmp(sent, late, BYTES) == 0);
  OK(tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF));
  destroy_sessions(sessions);
}

static void without_progress_threads(void) {
  TRUE(setenv("TCPX_PROGRESS_THREAD", "0", 1) == 0);
  refuse_children();
}

/* Calls of a process without a session take locks, too. */
static void *call_without_a_session(void *unused) {
  tcpx_session none = {1};
  while (!is_over) {
    OK(tcpx_set_log_callback(log_line, NULL, TCPX_LOG_TRACE));
    EXPECT(TCPX_ERR_HANDLE, tcpx_session_progress(none, NULL));
  }
  return unused;
}

static void *make_a_session(void *unused) {
  tcpx_session session;
  OK(tcpx_session_create(NULL, &session));
  is_over = true;
  return unused;
}

/* Made in the middle of the parent's first calls: it works or is refused, but never hangs. */
static void try_everything(void) {
  tcpx_session session;
  size_t size = 0;
  tcpx_status status = tcpx_session_create(NULL, &session);
  if (status == TCPX_ERR_FORKED) return;
  OK(status);
  OK(tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF));
  OK(tcpx_session_listen(session, NULL, 0, &size));
  OK(tcpx_session_destroy(session));
}

static void race(void) {
  pthread_t threads[2];
  TRUE(pthread_create(&threads[0], NULL, call_without_a_session, NULL) == 0);
  TRUE(pthread_create(&threads[1], NULL, make_a_session, NULL) == 0);
  do in_child(try_everything);
  while (!is_over);
  TRUE(pthread_join(threads[0], NULL) == 0);
  TRUE(pthread_join(threads[1], NULL) == 0);
}

int main(int argc, char **argv) {
  int i;
  tcpx_session_options options;
  size_t gpus = 0;
  own_path = argv[0];
  if (argc > 1) return is_any_descriptor_open();
  /* Whatever this program has inherited is not the library's. */
  for (i = 3; i < HIGHEST_DESCRIPTOR; ++i) close(i);
  /* Helper threads have descriptors of their own. */
  TRUE(setenv("TCPX_SOFT_HELPERS", "1", 1) == 0);

  in_child(use_the_library);
  for (i = 0; i < RACES; ++i) in_child(race);
  OK(tcpx_set_log_callback(log_line, NULL, TCPX_LOG_DEBUG));
  OK(tcpx_session_options_init(&options, sizeof options));
  OK(tcpx_gpu_count(&gpus));
  in_child(use_the_library);
  OK(tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF));
  in_child(without_progress_threads);
  refuse_children();
  printf("PASSED\n");
  return 0;
}
