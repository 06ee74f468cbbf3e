/* Batches for which there is no memory: a status comes out, nothing is posted, all goes on. */
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "expect.h"

enum { MOST_SENDS = 1 << 17 };

typedef tcpx_status (*post_batch)(tcpx_transfer, const tcpx_post *, size_t, size_t);

/* Bytes of address space that the process has. */
static size_t address_space(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  TRUE(file != NULL && fscanf(file, "%lu", &pages) == 1);
  fclose(file);
  return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Sets the limit of address space; SIZE_MAX: no limit. */
static void limit_address_space(size_t bytes) {
  struct rlimit limit;
  TRUE(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = bytes == SIZE_MAX ? limit.rlim_max : (rlim_t)bytes;
  TRUE(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* Posts a batch with ever more memory until there is enough: so each of the lists that it needs is
 * refused once. Returns how often it was. */
static int post_with_little_memory(post_batch post, tcpx_transfer transfer, const tcpx_post *posts, size_t count,
                                   size_t step) {
  char number[32];
  size_t limit = address_space() + ((size_t)1 << 20);
  int refused = 0;
  snprintf(number, sizeof number, "%zu", count);
  for (;; limit += step) {
    tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
    tcpx_status status;
    limit_address_space(limit);
    status = post(transfer, posts, sizeof *posts, count);
    limit_address_space(SIZE_MAX);
    OK(tcpx_transfer_get_counts(transfer, &counts));
    if (status == TCPX_OK) {
      TRUE(counts.operations_posted == count);
      printf("%zu posts were refused %d times\n", count, refused);
      return refused;
    }
    EXPECT(TCPX_ERR_NO_MEMORY, status);
    TRUE(strstr(tcpx_last_error(), number) != NULL);
    TRUE(counts.operations_posted == 0 && counts.operations_done == 0);
    ++refused;
  }
}

/* Whether both are complete. A send may be complete whose bytes have not left yet, so asking for transfers alone would
 * leave a session without a progress thread with them. */
static bool are_complete(tcpx_session from, tcpx_transfer send, tcpx_transfer receive) {
  bool sent = false;
  bool received = false;
  OK(tcpx_session_progress(from, NULL));
  OK(tcpx_transfer_is_complete(send, &sent));
  OK(tcpx_transfer_is_complete(receive, &received));
  return sent && received;
}

/* Returns when all that `from` has said so far has reached `to`. */
static void let_frames_pass(tcpx_session from, tcpx_session to, uint64_t from_memory, uint64_t to_memory) {
  tcpx_transfer send;
  tcpx_transfer receive;
  OK(tcpx_session_create_transfer(from, "left", &send));
  OK(tcpx_session_create_transfer(to, "right", &receive));
  OK(tcpx_transfer_post_send(send, from_memory, 0, 1, -7));
  OK(tcpx_transfer_post_recv(receive, to_memory, 0, 1, -7));
  while (!are_complete(from, send, receive)) continue;
  OK(tcpx_transfer_release(send));
  OK(tcpx_transfer_release(receive));
}

/* Sends whose receives wait already, so that each of them is matched by its post. */
static void matched_sends(two_sessions sessions, tcpx_post *posts, int sends, size_t step) {
  static unsigned char source[2 * MOST_SENDS];
  static unsigned char target[MOST_SENDS];
  static unsigned char word[2];
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t words[2] = {0, 0};
  tcpx_transfer send;
  tcpx_transfer receive;
  int i;
  for (i = 0; i < 2 * sends; ++i) source[i] = (unsigned char)(i * 7 + i / 256);
  OK(tcpx_session_register_memory(sessions.left, source, sizeof source, TCPX_PTR_CUDA, 0, &from));
  OK(tcpx_session_register_memory(sessions.right, target, sizeof target, TCPX_PTR_CUDA, 1, &to));
  OK(tcpx_session_register_memory(sessions.left, &word[0], 1, TCPX_PTR_CUDA, 1, &words[0]));
  OK(tcpx_session_register_memory(sessions.right, &word[1], 1, TCPX_PTR_CUDA, 0, &words[1]));
  OK(tcpx_session_create_transfer(sessions.left, "right", &send));
  OK(tcpx_session_create_transfer(sessions.right, "left", &receive));
  for (i = 0; i < sends; ++i) {
    tcpx_post post = {to, (uint64_t)i, 1, 3};
    posts[i] = post;
  }
  TRUE(post_with_little_memory(tcpx_transfer_post_recv_batch, receive, posts, (size_t)sends, (size_t)sends * step) > 2);
  /* The peer hears of some receives, and says that it takes more. */
  for (i = 0; i < 8; ++i) let_frames_pass(sessions.right, sessions.left, words[1], words[0]);
  for (i = 0; i < sends; ++i) {
    tcpx_post post = {from, (uint64_t)i * 2, 1, 3};
    posts[i] = post;
  }
  TRUE(post_with_little_memory(tcpx_transfer_post_send_batch, send, posts, (size_t)sends, (size_t)sends * step) > 2);
  while (!are_complete(sessions.left, send, receive)) continue;
  for (i = 0; i < sends; ++i) TRUE(target[i] == source[2 * i]);
}

/* Batches that get no answer. */
static void unanswered_batches(two_sessions sessions, tcpx_post *posts, size_t count, size_t step) {
  static unsigned char bytes[16];
  uint64_t memory = 0;
  int way;
  size_t i;
  OK(tcpx_session_register_memory(sessions.left, bytes, sizeof bytes, TCPX_PTR_HOST, 1, &memory));
  for (i = 0; i < count; ++i) {
    tcpx_post post = {memory, i % 16, 1, (int64_t)i};
    posts[i] = post;
  }
  for (way = 0; way < 2; ++way) {
    post_batch post = way ? tcpx_transfer_post_send_batch : tcpx_transfer_post_recv_batch;
    tcpx_transfer transfer;
    tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
    OK(tcpx_session_create_transfer(sessions.left, "right", &transfer));
    TRUE(post_with_little_memory(post, transfer, posts, count, count * step) > 2);
    /* One more, with memory. */
    OK(post(transfer, posts, sizeof *posts, 1));
    OK(tcpx_transfer_get_counts(transfer, &counts));
    TRUE(counts.operations_posted == count + 1);
  }
}

/* Three arguments: how many sends there are, how long batches without an answer, and with how many bytes more for each
 * post it is tried again. Without, as many as there can be, in large steps. */
int main(int argc, char **argv) {
  const int sends = argc > 1 ? atoi(argv[1]) : MOST_SENDS;
  const size_t batch = argc > 2 ? (size_t)atol(argv[2]) : TCPX_MAX_BATCH;
  const size_t step = argc > 3 ? (size_t)atol(argv[3]) : 32;
  two_sessions sessions;
  tcpx_session_options options;
  /* Large pieces are the system's own, and go back to it: the allocator keeps nothing in reserve. */
  TRUE(mallopt(M_MMAP_THRESHOLD, 64 << 10) == 1 && mallopt(M_TRIM_THRESHOLD, 128 << 10) == 1);
  TRUE(mallopt(M_ARENA_MAX, 1) == 1);
  /* A thread that makes progress would want memory too, when there is none. */
  OK(tcpx_session_options_init(&options, sizeof options));
  options.progress_thread = 0;
  sessions = connect_sessions_with(&options, &options);
  tcpx_post *posts = (tcpx_post *)malloc(TCPX_MAX_BATCH * sizeof *posts);
  TRUE(posts != NULL && sends > 0 && sends <= MOST_SENDS && batch <= TCPX_MAX_BATCH);
  matched_sends(sessions, posts, sends, step);
  unanswered_batches(sessions, posts, batch, 2 * step);
  /* All those operations are still there: the process ends with them. */
  puts("PASSED");
  return 0;
}
