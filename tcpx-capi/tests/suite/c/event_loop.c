/* One thread, two sessions and an event loop of its own: they meet, move data and part, and no call waits for anything
 * but the loop. Once with progress threads, where only the descriptors say when to look, and once without, where the
 * loop makes the progress itself. */
#include <sys/epoll.h>
#include <unistd.h>

#include "expect.h"

enum { TRANSFERS = 4, ROUNDS = 12, BYTES = 100000, PATIENCE_MS = 60000, MAX_TURNS = 100000000, ENTRIES = 3 };

/* One end: its session, and its half of every transfer. */
typedef struct {
  tcpx_session session;
  const char *peer;
  unsigned char *memory;
  uint64_t id;
  tcpx_transfer transfers[TRANSFERS];
  int rounds[TRANSFERS];
  int completed;
} end;

typedef struct {
  int epoll;
  int has_threads;
  end sender, receiver;
} loop;

static unsigned char byte_of(int transfer, int round, size_t index) {
  return (unsigned char)(index * 7 + (size_t)(transfer * 31 + round * 3));
}

/* Waits for an event, and makes a round of progress where no thread does. */
static void run_once(loop *loop) {
  struct epoll_event events[2];
  /* This program waits in the library, too, as in expire(). */
  OK(tcpx_session_arm(loop->sender.session));
  OK(tcpx_session_arm(loop->receiver.session));
  TRUE(epoll_wait(loop->epoll, events, 2, PATIENCE_MS) > 0);
  if (loop->has_threads) return;
  OK(tcpx_session_progress(loop->sender.session, NULL));
  OK(tcpx_session_progress(loop->receiver.session, NULL));
}

static void watch(loop *loop, tcpx_session session) {
  struct epoll_event event = {0};
  int32_t descriptor = -1, again = -1;
  OK(tcpx_session_event_fd(session, &descriptor));
  OK(tcpx_session_event_fd(session, &again));
  TRUE(descriptor >= 0 && descriptor == again);
  event.events = EPOLLIN;
  TRUE(epoll_ctl(loop->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0);
}

static size_t poll_completions(tcpx_session session, tcpx_completion *entries) {
  size_t count = 99;
  OK(tcpx_session_poll_completions(session, entries, sizeof *entries, ENTRIES, &count));
  TRUE(count <= ENTRIES);
  return count;
}

/* Nothing is posted yet, so an event is one of a peer. */
static void check_peers(loop *loop) {
  tcpx_completion entries[ENTRIES];
  TRUE(poll_completions(loop->sender.session, entries) == 0);
  TRUE(poll_completions(loop->receiver.session, entries) == 0);
}

static int32_t state(tcpx_session session, const char *peer) {
  int32_t state = 0;
  OK(tcpx_session_peer_state(session, peer, &state));
  return state;
}

static void open_end(loop *loop, end *end, const char *peer, int is_recv) {
  tcpx_session_options options;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.plugin = "soft";
  options.listen = "127.0.0.1:0";
  options.name = is_recv ? "receiver" : "sender";
  options.progress_thread = loop->has_threads;
  options.eager_bytes = 0; /* every send waits for its receive */
  options.close_timeout_ms = PATIENCE_MS;
  memset(end, 0, sizeof *end);
  end->peer = peer;
  OK(tcpx_session_create(&options, &end->session));
  end->memory = calloc(TRANSFERS, BYTES);
  TRUE(end->memory != NULL);
  OK(tcpx_session_register_memory(end->session, end->memory, (uint64_t)TRANSFERS * BYTES, TCPX_PTR_HOST, is_recv,
                                  &end->id));
  watch(loop, end->session);
}

static void connect_both(loop *loop) {
  char info[4096], name[TCPX_MAX_NAME_BYTES + 1] = "";
  size_t size = 0;
  int turns = 0;
  bool accepted = false;
  tcpx_session sender = loop->sender.session, receiver = loop->receiver.session;
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_start_accept_any(receiver)); /* it does not listen */
  OK(tcpx_session_listen(receiver, info, sizeof info, &size));
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_poll_accept_any(receiver, &accepted, name, sizeof name));
  OK(tcpx_session_start_accept_any(receiver));
  OK(tcpx_session_poll_accept_any(receiver, &accepted, name, sizeof name));
  TRUE(!accepted && name[0] == '\0');
  /* An accept that no peer will come for, given up again. */
  OK(tcpx_session_start_accept(receiver, "absent"));
  TRUE(state(receiver, "absent") == TCPX_PEER_ACCEPTING);
  OK(tcpx_session_disconnect(receiver, "absent"));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_start_disconnect(receiver, "absent"));

  OK(tcpx_session_load_remote_conn_info(sender, "receiver", info, size));
  OK(tcpx_session_start_connect(sender, "receiver"));
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_start_connect(sender, "receiver"));
  while (!accepted || state(sender, "receiver") != TCPX_PEER_UP) {
    TRUE(turns++ < MAX_TURNS);
    run_once(loop);
    check_peers(loop);
    if (!accepted) OK(tcpx_session_poll_accept_any(receiver, &accepted, name, sizeof name));
  }
  TRUE(strcmp(name, "sender") == 0 && state(receiver, "sender") == TCPX_PEER_UP);
}

static void post_send(end *sender, int index) {
  unsigned char *bytes = sender->memory + (size_t)index * BYTES;
  size_t i;
  for (i = 0; i < BYTES; ++i) bytes[i] = byte_of(index, sender->rounds[index], i);
  OK(tcpx_transfer_post_send(sender->transfers[index], sender->id, (uint64_t)index * BYTES, BYTES, index));
}

static void post_recv(end *receiver, int index) {
  OK(tcpx_transfer_post_recv(receiver->transfers[index], receiver->id, (uint64_t)index * BYTES, BYTES, index));
}

static void check_received(const end *receiver, int index) {
  const unsigned char *bytes = receiver->memory + (size_t)index * BYTES;
  size_t i;
  for (i = 0; i < BYTES; ++i) TRUE(bytes[i] == byte_of(index, receiver->rounds[index], i));
}

/* Takes out what is complete, and begins its next round. More may wait than there are entries for: then the descriptor
 * stays readable. */
static void check_transfers(loop *loop, end *end) {
  const int receives = end == &loop->receiver;
  tcpx_completion entries[ENTRIES];
  size_t i, count = poll_completions(end->session, entries);
  for (i = 0; i < count; ++i) {
    const int index = (int)entries[i].context - 1;
    TRUE(entries[i].size == sizeof entries[i] && entries[i].status == TCPX_OK && entries[i].rounds == 1);
    TRUE(index >= 0 && index < TRANSFERS && end->rounds[index] < ROUNDS);
    if (receives) check_received(end, index);
    ++end->rounds[index];
    ++end->completed;
    if (end->rounds[index] == ROUNDS) continue;
    if (receives) {
      post_recv(end, index);
    } else {
      post_send(end, index);
    }
  }
}

static void transfer_rounds(loop *loop) {
  end *ends[2];
  int i, turns = 0;
  ends[0] = &loop->sender;
  ends[1] = &loop->receiver;
  for (i = 0; i < 2 * TRANSFERS; ++i) {
    end *end = ends[i / TRANSFERS];
    const int index = i % TRANSFERS;
    OK(tcpx_session_create_transfer(end->session, end->peer, &end->transfers[index]));
    OK(tcpx_transfer_report_completions(end->transfers[index], 77));
    OK(tcpx_transfer_report_completions(end->transfers[index], (uint64_t)index + 1));
    if (end == &loop->sender) {
      post_send(end, index);
    } else {
      post_recv(end, index);
    }
  }
  while (ends[0]->completed < TRANSFERS * ROUNDS || ends[1]->completed < TRANSFERS * ROUNDS) {
    TRUE(turns++ < MAX_TURNS);
    run_once(loop);
    check_transfers(loop, ends[0]);
    check_transfers(loop, ends[1]);
  }
}

/* An operation that fails is in its entry, and a transfer that is released is in none. */
static void cancel_transfer(loop *loop) {
  tcpx_completion entries[ENTRIES];
  end *sender = &loop->sender;
  int i;
  for (i = 0; i < 2; ++i) {
    OK(tcpx_transfer_post_send(sender->transfers[i], sender->id, 0, 1, 1000));
    OK(tcpx_transfer_cancel(sender->transfers[i]));
  }
  OK(tcpx_transfer_release(sender->transfers[0]));
  TRUE(poll_completions(sender->session, entries) == 1);
  TRUE(entries[0].context == 2 && entries[0].status == TCPX_ERR_CANCELLED);
}

/* A receive without a send expires; the next one has no time limit. */
static void expire(loop *loop) {
  end *receiver = &loop->receiver;
  tcpx_completion entry;
  size_t count = 0;
  int turns = 0;
  OK(tcpx_transfer_set_timeout(receiver->transfers[0], 1));
  OK(tcpx_transfer_post_recv(receiver->transfers[0], receiver->id, 0, 1, 2000));
  while (count == 0) {
    TRUE(turns++ < MAX_TURNS);
    run_once(loop);
    OK(tcpx_session_poll_completions(receiver->session, &entry, sizeof entry, 1, &count));
  }
  TRUE(entry.kind == TCPX_COMPLETION_TRANSFER && entry.status == TCPX_ERR_EXPIRED && entry.peer[0] == '\0');
  EXPECT(TCPX_ERR_EXPIRED, tcpx_transfer_wait(receiver->transfers[0], 0));
  OK(tcpx_transfer_set_timeout(receiver->transfers[0], 0));
}

static int is_unknown(const end *end) {
  int32_t state = 0;
  const tcpx_status status = tcpx_session_peer_state(end->session, end->peer, &state);
  if (status != TCPX_ERR_UNKNOWN_PEER) OK(status);
  return status == TCPX_ERR_UNKNOWN_PEER;
}

static void disconnect_both(loop *loop) {
  int i, turns = 0;
  for (i = 1; i < TRANSFERS; ++i) OK(tcpx_transfer_release(loop->sender.transfers[i]));
  for (i = 0; i < TRANSFERS; ++i) OK(tcpx_transfer_release(loop->receiver.transfers[i]));
  OK(tcpx_session_start_disconnect(loop->sender.session, loop->sender.peer));
  OK(tcpx_session_start_disconnect(loop->receiver.session, loop->receiver.peer));
  while (!is_unknown(&loop->sender) || !is_unknown(&loop->receiver)) {
    TRUE(turns++ < MAX_TURNS);
    run_once(loop);
    check_peers(loop);
  }
}

/* A connect to an unreachable peer ends by itself, with its error. */
static void connect_to_unreachable(loop *loop) {
  char text[4096] = "";
  size_t size = 0;
  int turns = 0;
  tcpx_status error = TCPX_OK;
  end *sender = &loop->sender;
  tcpx_session gone = {0};
  OK(tcpx_session_create(NULL, &gone));
  OK(tcpx_session_listen(gone, text, sizeof text, &size));
  OK(tcpx_session_load_remote_conn_info(sender->session, "gone", text, size));
  OK(tcpx_session_destroy(gone));
  OK(tcpx_session_start_connect(sender->session, "gone"));
  while (state(sender->session, "gone") != TCPX_PEER_FAILED) {
    TRUE(turns++ < MAX_TURNS);
    run_once(loop);
    check_peers(loop);
  }
  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL,
         tcpx_session_peer_error(sender->session, "gone", &error, text, 3, &size));
  OK(tcpx_session_peer_error(sender->session, "gone", &error, text, sizeof text, &size));
  TRUE(error == TCPX_ERR_IO && strlen(text) + 1 == size && strstr(text, "gone") != NULL);
  OK(tcpx_session_disconnect(sender->session, "gone"));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_peer_error(sender->session, "gone", &error, text, sizeof text, &size));
}

/* Waits for the next entry of the sender's queue, which is one of this peer. */
static tcpx_completion await_peer_event(loop *loop, const char *peer, int32_t state) {
  tcpx_completion entries[ENTRIES];
  size_t count = 0;
  int turns = 0;
  while (count == 0) {
    TRUE(turns++ < MAX_TURNS);
    run_once(loop);
    TRUE(poll_completions(loop->receiver.session, entries) == 0);
    /* Entries of an older header have no room for it. */
    OK(tcpx_session_poll_completions(loop->sender.session, entries, 32, ENTRIES, &count));
    TRUE(count == 0);
    count = poll_completions(loop->sender.session, entries);
  }
  TRUE(count == 1 && entries[0].size == sizeof entries[0] && entries[0].kind == TCPX_COMPLETION_PEER);
  TRUE(entries[0].context == 0 && entries[0].rounds == 0 && entries[0].state == state);
  TRUE(strcmp(entries[0].peer, peer) == 0);
  return entries[0];
}

/* Peers that come up, part and fail are reported in the queue of completions. */
static void report_peers(loop *loop) {
  tcpx_session sender = loop->sender.session, receiver = loop->receiver.session;
  OK(tcpx_session_report_peers(sender));
  OK(tcpx_session_start_accept(receiver, "sender"));
  OK(tcpx_session_start_connect(sender, "receiver"));
  TRUE(await_peer_event(loop, "receiver", TCPX_PEER_UP).status == TCPX_OK);
  OK(tcpx_session_start_disconnect(receiver, "sender"));
  OK(tcpx_session_start_disconnect(sender, "receiver"));
  TRUE(await_peer_event(loop, "receiver", TCPX_PEER_PARTED).status == TCPX_OK);
  OK(tcpx_session_start_connect(sender, "gone"));
  TRUE(await_peer_event(loop, "gone", TCPX_PEER_FAILED).status == TCPX_ERR_IO);
  TRUE(state(sender, "gone") == TCPX_PEER_FAILED);
}

static void run(int has_threads) {
  loop loop;
  loop.has_threads = has_threads;
  loop.epoll = epoll_create1(EPOLL_CLOEXEC);
  TRUE(loop.epoll >= 0);
  open_end(&loop, &loop.sender, "receiver", 0);
  open_end(&loop, &loop.receiver, "sender", 1);
  connect_both(&loop);
  transfer_rounds(&loop);
  cancel_transfer(&loop);
  expire(&loop);
  disconnect_both(&loop);
  connect_to_unreachable(&loop);
  report_peers(&loop);
  OK(tcpx_session_destroy(loop.sender.session));
  OK(tcpx_session_destroy(loop.receiver.session));
  TRUE(close(loop.epoll) == 0);
  free(loop.sender.memory);
  free(loop.receiver.memory);
}

int main(void) {
  run(1);
  run(0);
  printf("PASSED\n");
  return 0;
}
