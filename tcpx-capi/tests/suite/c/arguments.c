/* Every function with NULL for every pointer, and with lengths, texts and numbers that cannot be. */
#include <limits.h>

#include "expect.h"

static char memory[8192];
static char page[65536];

static void nulls(two_sessions sessions, tcpx_transfer transfer) {
  tcpx_session session = sessions.left;
  tcpx_session_options options;
  tcpx_memory_descriptor descriptor = {sizeof descriptor, 4096, 10, TCPX_PTR_HOST, 0};
  tcpx_completion completion;
  tcpx_status error;
  int32_t number;
  bool flag;
  uint64_t id;
  size_t size = 77;
  OK(tcpx_session_options_init(&options, sizeof options));

  EXPECT(TCPX_ERR_NULL, tcpx_session_options_init(NULL, sizeof options));
  EXPECT(TCPX_ERR_NULL, tcpx_session_create(&options, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_listen(session, memory, sizeof memory, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_accept(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_load_remote_conn_info(session, NULL, memory, 10));
  EXPECT(TCPX_ERR_NULL, tcpx_session_load_remote_conn_info(session, "x", NULL, 10));
  EXPECT(TCPX_ERR_NULL, tcpx_session_load_remote_conn_info(session, "x", NULL, 0));
  EXPECT(TCPX_ERR_NULL, tcpx_session_connect(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_disconnect(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_accept_any(session, NULL, sizeof memory));
  EXPECT(TCPX_ERR_NULL, tcpx_session_start_accept(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_poll_accept_any(session, NULL, memory, sizeof memory));
  EXPECT(TCPX_ERR_NULL, tcpx_session_poll_accept_any(session, &flag, NULL, sizeof memory));
  EXPECT(TCPX_ERR_NULL, tcpx_session_start_connect(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_start_disconnect(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_peer_state(session, NULL, &number));
  EXPECT(TCPX_ERR_NULL, tcpx_session_peer_state(session, "right", NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_peer_error(session, NULL, &error, NULL, 0, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_session_peer_error(session, "right", NULL, NULL, 0, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_session_peer_error(session, "right", &error, NULL, 0, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_event_fd(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_poll_completions(session, NULL, sizeof completion, 1, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_session_poll_completions(session, &completion, sizeof completion, 1, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_register_memory(session, NULL, 10, TCPX_PTR_HOST, 1, &id));
  EXPECT(TCPX_ERR_NULL, tcpx_session_register_memory(session, memory, 10, TCPX_PTR_HOST, 1, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_memory_info(session, 1, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_create_transfer(session, NULL, &transfer));
  EXPECT(TCPX_ERR_NULL, tcpx_session_create_transfer(session, "right", NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_get_stats(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_stats_json(session, memory, sizeof memory, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_metrics_text(NULL, 1, memory, sizeof memory, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_metrics_text(&session, 1, memory, sizeof memory, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_nic_count(session, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_session_nic(session, 0, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_gpu_count(NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_transfer_post_send_batch(transfer, NULL, sizeof(tcpx_post), 1));
  EXPECT(TCPX_ERR_NULL, tcpx_transfer_post_recv_batch(transfer, NULL, sizeof(tcpx_post), 1));
  EXPECT(TCPX_ERR_NULL, tcpx_transfer_is_complete(transfer, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_transfer_get_counts(transfer, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_transfer_get_round_counts(transfer, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_transfer_error(transfer, NULL, NULL, 0, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_transfer_error(transfer, &error, NULL, 0, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_memory_descriptor_serialize(NULL, memory, sizeof memory, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_memory_descriptor_serialize(&descriptor, memory, sizeof memory, NULL));
  EXPECT(TCPX_ERR_NULL, tcpx_memory_descriptor_deserialize(NULL, 40, &descriptor));
  EXPECT(TCPX_ERR_NULL, tcpx_memory_descriptor_deserialize(memory, 40, NULL));
  TRUE(size == 77); /* nothing failed after writing */

  /* Where NULL means something. */
  OK(tcpx_session_progress(session, NULL));
  OK(tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF));
  OK(tcpx_transfer_post_send_batch(transfer, NULL, sizeof(tcpx_post), 0));
}

static void buffers(two_sessions sessions, tcpx_transfer transfer) {
  tcpx_memory_descriptor descriptor = {sizeof descriptor, 4096, 10, TCPX_PTR_HOST, 0};
  tcpx_status error = TCPX_ERR_INTERNAL;
  size_t needed = 0;
  size_t size = 0;
  memset(memory, 9, sizeof memory);

  OK(tcpx_session_listen(sessions.left, NULL, 0, &needed));
  TRUE(needed > 16 && needed < sizeof memory);
  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_session_listen(sessions.left, memory, needed - 1, &size));
  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_session_listen(sessions.left, memory, 0, &size));
  TRUE(size == needed && memory[0] == 9);
  OK(tcpx_session_listen(sessions.left, memory, needed, &size));
  TRUE(size == needed && memory[needed] == 9 && memcmp(memory, "TCPXINFO", 8) == 0);

  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_session_stats_json(sessions.left, memory, 10, &size));
  TRUE(size > 100);
  OK(tcpx_session_stats_json(sessions.left, memory, sizeof memory, &size));
  TRUE(strlen(memory) + 1 == size && memory[0] == '{' && strstr(memory, "\"transport\":\"software\"") != NULL);

  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_metrics_text(&sessions.left, 1, memory, 10, &size));
  TRUE(size > 1000);
  OK(tcpx_metrics_text(&sessions.left, 1, page, sizeof page, &size));
  TRUE(strlen(page) + 1 == size && strstr(page, "\ntcpx_peers{session=\"\",device=\"host\"} 1\n") != NULL);
  OK(tcpx_metrics_text(NULL, 0, page, sizeof page, &size));
  TRUE(size == 1 && page[0] == '\0');

  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_transfer_error(transfer, &error, memory, 0, &size));
  TRUE(error == TCPX_OK && size == 1);
  OK(tcpx_transfer_error(transfer, &error, memory, 1, &size));
  TRUE(memory[0] == '\0');

  memset(memory, 9, sizeof memory);
  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_memory_descriptor_serialize(&descriptor, memory, 39, &size));
  TRUE(size == TCPX_MEMORY_DESCRIPTOR_BYTES && memory[0] == 9);
  OK(tcpx_memory_descriptor_serialize(&descriptor, memory, 40, &size));
  TRUE(memory[40] == 9);
  memset(&descriptor, 0, sizeof descriptor);
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_memory_descriptor_deserialize(memory, 40, &descriptor)); /* no size */
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_memory_descriptor_serialize(&descriptor, memory, 40, &size));
  descriptor.size = sizeof descriptor;
  OK(tcpx_memory_descriptor_deserialize(memory, 40, &descriptor));
  TRUE(descriptor.size == sizeof descriptor && descriptor.base_addr == 4096 && descriptor.bytes == 10);
  TRUE(descriptor.ptr_type == TCPX_PTR_HOST);
  memory[20] ^= 1;
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_memory_descriptor_deserialize(memory, 40, &descriptor));
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_memory_descriptor_deserialize(memory, 0, &descriptor));
  OK(tcpx_memory_descriptor_deserialize("8192,20,2", 9, &descriptor));
  TRUE(descriptor.base_addr == 8192 && descriptor.bytes == 20 && descriptor.ptr_type == TCPX_PTR_CUDA);
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_memory_descriptor_deserialize("8192,20,2", 10, &descriptor)); /* with its NUL */
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_memory_descriptor_deserialize("8192,20,2", 8, &descriptor));
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_memory_descriptor_deserialize("8192,-1,2", 9, &descriptor));
}

static void lengths(two_sessions sessions, tcpx_transfer transfer) {
  char longest[TCPX_MAX_NAME_BYTES + 2];
  tcpx_memory_descriptor descriptor = {sizeof descriptor, 0, 0, 0, 0};
  tcpx_post post = {1, 0, 1, 0};
  tcpx_transfer other;
  tcpx_completion completion;
  int32_t number = 0;
  bool flag = false;
  uint64_t id = 0;
  size_t size = 0;
  memset(longest, 'x', sizeof longest);
  longest[sizeof longest - 1] = '\0';

  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_accept(sessions.left, longest));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_accept(sessions.left, ""));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_connect(sessions.left, "\xff"));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_create_transfer(sessions.left, longest, &other));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_create_transfer(sessions.left, longest + 1, &other));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_disconnect(sessions.left, "absent"));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_connect(sessions.left, "absent"));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_accept_any(sessions.left, memory, TCPX_MAX_NAME_BYTES));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_poll_accept_any(sessions.left, &flag, memory, 0));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_start_accept(sessions.left, longest));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_start_connect(sessions.left, ""));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_peer_state(sessions.left, "\xff", &number));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_peer_state(sessions.left, "absent", &number));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_start_connect(sessions.left, "absent"));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_start_disconnect(sessions.left, "absent"));
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_start_accept(sessions.left, "right"));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_poll_completions(sessions.left, &completion, 31, 1, &size));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_poll_completions(sessions.left, &completion, 36, 1, &size));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_poll_completions(sessions.left, &completion, sizeof completion, SIZE_MAX, &size));
  OK(tcpx_session_poll_completions(sessions.left, NULL, sizeof completion, 0, &size));
  TRUE(size == 0);
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_accept(sessions.right, "absent")); /* it does not listen */
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_accept(sessions.left, "right"));   /* it is connected already */

  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_load_remote_conn_info(sessions.left, "x", memory, SIZE_MAX));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_load_remote_conn_info(sessions.left, "x", memory, TCPX_MAX_CONN_INFO_BYTES + 1));
  EXPECT(TCPX_ERR_CONN_INFO, tcpx_session_load_remote_conn_info(sessions.left, "x", memory, sizeof memory));
  EXPECT(TCPX_ERR_CONN_INFO, tcpx_session_load_remote_conn_info(sessions.left, "x", memory, 0));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_listen(sessions.left, memory, SIZE_MAX, &size));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_stats_json(sessions.left, memory, SIZE_MAX, &size));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_metrics_text(&sessions.left, SIZE_MAX, page, sizeof page, &size));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_memory_descriptor_deserialize(memory, SIZE_MAX, &descriptor));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_post_send_batch(transfer, &post, sizeof(tcpx_post), SIZE_MAX));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_post_recv_batch(transfer, &post, sizeof(tcpx_post), (size_t)TCPX_MAX_BATCH + 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_post_send_batch(transfer, &post, 0, 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_post_send_batch(transfer, &post, sizeof post - 8, 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_post_send_batch(transfer, &post, sizeof post + 4, 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_post_send_batch(transfer, &post, SIZE_MAX, 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_post_recv_batch(transfer, (const tcpx_post *)(memory + 1), sizeof post, 1));

  EXPECT(TCPX_ERR_MEMORY, tcpx_session_register_memory(sessions.left, memory, 0, TCPX_PTR_HOST, 1, &id));
  EXPECT(TCPX_ERR_MEMORY, tcpx_session_register_memory(sessions.left, memory, UINT64_MAX, TCPX_PTR_HOST, 1, &id));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory(sessions.left, memory, 10, 0, 1, &id));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory(sessions.left, memory, 10, 3, 1, &id));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory(sessions.left, memory, 10, INT_MIN, 1, &id));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory(sessions.left, memory, 10, TCPX_PTR_HOST, 2, &id));
  TRUE(id == 0); /* outputs of failed calls are not written */
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_session_deregister_memory(sessions.left, 0));
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_session_deregister_memory(sessions.left, UINT64_MAX));
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_transfer_post_send(transfer, 99, 0, 1, 0));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_set_log_callback(NULL, NULL, 6));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_set_log_callback(NULL, NULL, -1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_set_plugin_log_level(6));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_set_plugin_log_level(-1));
}

static void posts(two_sessions sessions, tcpx_transfer transfer) {
  tcpx_post batch[2] = {{0, 0, 10, 1}, {0, 8192, 1, 2}};
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  tcpx_memory_info info = {sizeof info, 0, 0, 0, 0, 0};
  bool complete = false;
  uint64_t to_send = 0;
  uint64_t to_both = 0;
  OK(tcpx_session_register_memory(sessions.left, memory, 8192, TCPX_PTR_HOST, 0, &to_send));
  OK(tcpx_session_register_memory(sessions.left, memory, 8192, TCPX_PTR_CUDA, 1, &to_both));
  info.size = 0;
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_memory_info(sessions.left, to_both, &info));
  info.size = sizeof info;
  OK(tcpx_session_memory_info(sessions.left, to_both, &info));
  TRUE(info.id == to_both && info.address == (uint64_t)(uintptr_t)memory && info.bytes == 8192);
  TRUE(info.ptr_type == TCPX_PTR_CUDA && info.is_recv == 1);

  EXPECT(TCPX_ERR_MEMORY, tcpx_transfer_post_recv(transfer, to_send, 0, 1, 0));
  EXPECT(TCPX_ERR_MEMORY, tcpx_transfer_post_recv(transfer, to_both, 8192, 1, 0));
  EXPECT(TCPX_ERR_MEMORY, tcpx_transfer_post_recv(transfer, to_both, UINT64_MAX, 2, 0));
  EXPECT(TCPX_ERR_MEMORY, tcpx_transfer_post_recv(transfer, to_both, 1, UINT64_MAX, 0));
  batch[0].memory = batch[1].memory = to_both;
  EXPECT(TCPX_ERR_MEMORY, tcpx_transfer_post_recv_batch(transfer, batch, sizeof(tcpx_post), 2));
  OK(tcpx_transfer_get_counts(transfer, &counts));
  TRUE(counts.operations_posted == 0); /* none of a batch with a wrong one */
  counts.size = sizeof counts - 1;
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_get_counts(transfer, &counts));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_get_round_counts(transfer, &counts));

  OK(tcpx_transfer_is_complete(transfer, &complete));
  TRUE(complete);
  OK(tcpx_transfer_post_recv(transfer, to_both, 0, 10, 7));
  OK(tcpx_transfer_is_complete(transfer, &complete));
  TRUE(!complete);
  EXPECT(TCPX_ERR_TIMEOUT, tcpx_transfer_wait(transfer, 0));
  EXPECT(TCPX_ERR_TIMEOUT, tcpx_transfer_wait(transfer, 5));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_wait(transfer, -2));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_transfer_wait(transfer, INT_MIN));
  OK(tcpx_transfer_cancel(transfer));
}

static void cancelled(two_sessions sessions, tcpx_transfer transfer) {
  tcpx_status error = TCPX_OK;
  size_t size = 0;
  tcpx_status status;
  /* The peer has to agree, and in this program no other thread drives it. */
  do {
    OK(tcpx_session_progress(sessions.right, NULL));
    status = tcpx_transfer_wait(transfer, 1);
  } while (status == TCPX_ERR_TIMEOUT);
  EXPECT(TCPX_ERR_CANCELLED, status);
  OK(tcpx_transfer_error(transfer, &error, memory, sizeof memory, &size));
  TRUE(error == TCPX_ERR_CANCELLED && strlen(memory) + 1 == size && size > 1);
}

static void options(void) {
  struct {
    tcpx_session_options known;
    uint64_t more[2];
  } wide;
  tcpx_session session = {0};
  tcpx_session_options options;
  size_t first_size = offsetof(tcpx_session_options, preflight);
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_options_init(&options, 0));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_options_init(&options, first_size - 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_options_init(&options, SIZE_MAX));
  OK(tcpx_session_options_init(&wide.known, sizeof wide));
  TRUE(wide.known.size == sizeof wide && wide.more[0] == 0 && wide.more[1] == 0);
  OK(tcpx_session_create(&wide.known, &session));
  OK(tcpx_session_destroy(session));
  memset(&options, 0xff, sizeof options); /* a program of the first version has no such members */
  OK(tcpx_session_options_init(&options, first_size));
  TRUE(options.size == first_size && options.preflight == -1 && options.keep_sigpipe == -1);
  OK(tcpx_session_create(&options, &session));
  OK(tcpx_session_destroy(session));
  wide.more[1] = 1; /* an option that this library does not know must not be passed over */
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_create(&wide.known, &session));

  OK(tcpx_session_options_init(&options, sizeof options));
  options.channels = 0; /* as many as suit this machine */
  OK(tcpx_session_create(&options, &session));
  OK(tcpx_session_destroy(session));

#define REFUSED(status, member, value)                   \
  OK(tcpx_session_options_init(&options, sizeof options)); \
  options.member = (value);                              \
  EXPECT(status, tcpx_session_create(&options, &session))
  REFUSED(TCPX_ERR_ARGUMENT, size, 0);
  REFUSED(TCPX_ERR_ARGUMENT, size, SIZE_MAX);
  REFUSED(TCPX_ERR_SETTING, gpu, -2);
  /* No driver shows this many GPUs, and many machines have none. */
  REFUSED(TCPX_ERR_UNAVAILABLE, gpu, 4096);
  REFUSED(TCPX_ERR_SETTING, channels, 65);
  REFUSED(TCPX_ERR_SETTING, channels, UINT32_MAX);
  REFUSED(TCPX_ERR_SETTING, chunk_bytes, 4095);
  REFUSED(TCPX_ERR_SETTING, recv_window, 17);
  REFUSED(TCPX_ERR_SETTING, send_window, UINT32_MAX);
  REFUSED(TCPX_ERR_ARGUMENT, progress_thread, 2);
  REFUSED(TCPX_ERR_SETTING, notification_bytes, 131071);
  REFUSED(TCPX_ERR_SETTING, kept_for_peers_bytes, (UINT64_C(1) << 40) + 1);
  REFUSED(TCPX_ERR_ARGUMENT, accept_all, 2);
  REFUSED(TCPX_ERR_ARGUMENT, group, 2);
  REFUSED(TCPX_ERR_ARGUMENT, authenticate_link, 2);
  REFUSED(TCPX_ERR_SETTING, authenticate_link, 1);
  REFUSED(TCPX_ERR_SETTING, encryption, "yes");
  REFUSED(TCPX_ERR_SETTING, tls_key, "/nowhere/key.pem");
  REFUSED(TCPX_ERR_SETTING, peer_timeout_ms, 99);
  REFUSED(TCPX_ERR_SETTING, listen, "nowhere");
  REFUSED(TCPX_ERR_SETTING, advertise, "10.0.0.1,x");
  REFUSED(TCPX_ERR_SETTING, unpack, "fast");
  REFUSED(TCPX_ERR_PLUGIN_LOAD, plugin, "/nowhere/libplugin.so");
  REFUSED(TCPX_ERR_NO_NIC, nics, "no-such-nic");
}

static void machine(tcpx_session session) {
  tcpx_nic nic;
  tcpx_session_stats stats;
  size_t nics = 0;
  size_t gpus = 99;
  size_t i;
  OK(tcpx_gpu_count(&gpus));
  TRUE(gpus < 4096);
  OK(tcpx_session_nic_count(session, &nics));
  TRUE(nics >= 1);
  for (i = 0; i < nics; ++i) {
    nic.size = sizeof nic;
    OK(tcpx_session_nic(session, i, &nic));
    TRUE(nic.size == sizeof nic && nic.name[0] != '\0' && memchr(nic.name, 0, sizeof nic.name) != NULL);
  }
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_nic(session, nics, &nic));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_nic(session, SIZE_MAX, &nic));
  nic.size = 0;
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_nic(session, 0, &nic));
  stats.size = 8;
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_get_stats(session, &stats));
  stats.size = sizeof stats;
  OK(tcpx_session_get_stats(session, &stats));
  /* Small messages need no channels. */
  TRUE(stats.peers == 1);
  TRUE(strcmp(tcpx_version(), TCPX_VERSION) == 0 && tcpx_abi_version() == TCPX_ABI_VERSION);
}

/* Ordinary memory that is called memory of a GPU. The hardware plugin would close descriptor 0 over it. */
static void ordinary_memory_as_gpu_memory(void) {
  tcpx_session_options options;
  tcpx_session session;
  size_t gpus = 0;
  uint64_t id;
  OK(tcpx_gpu_count(&gpus));
  if (gpus == 0) return;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.gpu = 0;
  OK(tcpx_session_create(&options, &session));
  EXPECT(TCPX_ERR_MEMORY, tcpx_session_register_memory(session, memory, sizeof memory, TCPX_PTR_CUDA, 1, &id));
  TRUE(strstr(tcpx_last_error(), "does not reach") != NULL);
  OK(tcpx_session_destroy(session));
}

int main(void) {
  two_sessions sessions = connect_sessions();
  tcpx_transfer transfer = {0};
  OK(tcpx_session_create_transfer(sessions.left, "right", &transfer));
  nulls(sessions, transfer);
  buffers(sessions, transfer);
  lengths(sessions, transfer);
  posts(sessions, transfer);
  cancelled(sessions, transfer);
  options();
  machine(sessions.left);
  ordinary_memory_as_gpu_memory();
  OK(tcpx_transfer_release(transfer));
  destroy_sessions(sessions);
  printf("PASSED\n");
  return 0;
}
