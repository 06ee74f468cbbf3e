//! The C ABI of tcpx: `libtcpx_p2p.so` and `libtcpx_p2p.a`, over `tcpx-core`.
//!
//! It is for C and C++ programs, through `include/tcpx_p2p.h` (generated from this crate) and
//! `include/tcpx_p2p.hpp` (classes over it). Rust programs use `tcpx-core` itself.
//!
//! These rules hold for every function:
//! - It returns a status. [`tcpx_status::TCPX_OK`] is 0, and failures are negative.
//!   [`tcpx_last_error`] has the words.
//! - It checks pointers for NULL, numbers for their range, and texts and arrays for their length.
//! - Outputs come last, and are written only on success. Sizes that say how large a buffer must be
//!   are the exception.
//! - Handles are numbers that are looked up, never addresses that are followed. A handle that is
//!   stale, of the wrong kind or made up gives [`tcpx_status::TCPX_ERR_HANDLE`].
//! - Any thread may call anything. A handle that another call is using right now is not ended
//!   ([`tcpx_status::TCPX_ERR_BUSY`]).
//! - A panic does not leave the library. It becomes [`tcpx_status::TCPX_ERR_INTERNAL`].
#![allow(non_camel_case_types, reason = "the names are those of the C header")]

mod abi;
mod boundary;
mod completions;
mod export;
mod extensible;
mod failure;
mod input;
mod input_array;
mod last_error;
mod log;
mod log_sink;
mod memory;
mod memory_descriptor;
mod memory_list;
mod metrics;
mod nic;
mod notification;
mod operation;
mod options;
mod output;
mod output_array;
mod pairs;
mod panic_hook;
mod peers;
mod post;
mod registry;
mod session;
mod stats;
mod status;
mod transfer;
mod version;

pub use abi::TCPX_ABI_VERSION;
pub use completions::{
    TCPX_COMPLETION_PEER, TCPX_COMPLETION_TRANSFER, tcpx_completion, tcpx_session_arm,
    tcpx_session_event_fd, tcpx_session_poll_completions, tcpx_session_report_peers,
    tcpx_transfer_report_completions,
};
pub use export::{
    TCPX_ACCESS_READ, TCPX_ACCESS_WRITE, TCPX_REMOTE_KEY_BYTES, tcpx_export, tcpx_export_options,
    tcpx_remote_key_info, tcpx_remote_memory, tcpx_unexport,
};
pub use input::TCPX_MAX_NAME_BYTES;
pub use last_error::{tcpx_last_error, tcpx_last_error_id};
pub use log::{tcpx_set_log_callback, tcpx_set_plugin_log_level};
pub use log_sink::{
    TCPX_LOG_DEBUG, TCPX_LOG_ERROR, TCPX_LOG_INFO, TCPX_LOG_OFF, TCPX_LOG_TRACE, TCPX_LOG_WARN,
    tcpx_log_callback,
};
pub use memory::{
    TCPX_PTR_CUDA, TCPX_PTR_HOST, tcpx_memory_info, tcpx_session_deregister_memory,
    tcpx_session_memory_info, tcpx_session_register_memory, tcpx_session_register_memory_on,
};
pub use memory_descriptor::{
    TCPX_MEMORY_DESCRIPTOR_BYTES, tcpx_memory_descriptor, tcpx_memory_descriptor_deserialize,
    tcpx_memory_descriptor_serialize,
};
pub use memory_list::{tcpx_registration, tcpx_session_register_memory_list};
pub use metrics::tcpx_metrics_text;
pub use nic::{
    TCPX_NIC_NAME_BYTES, TCPX_NIC_PATH_BYTES, tcpx_gpu_count, tcpx_nic, tcpx_session_nic,
    tcpx_session_nic_count,
};
pub use notification::{
    TCPX_NOTIFICATION_PEER_BYTES, tcpx_notification, tcpx_notify, tcpx_poll_notifications,
    tcpx_wait_notifications,
};
pub use operation::{
    TCPX_MAX_NOTIFICATION_BYTES, TCPX_OPERATION_ACTIVE, TCPX_OPERATION_DONE, TCPX_OPERATION_FAILED,
    TCPX_OPERATION_IDLE, TCPX_READ, TCPX_WRITE, tcpx_operation, tcpx_operation_cancel,
    tcpx_operation_error, tcpx_operation_options, tcpx_operation_post, tcpx_operation_post_with,
    tcpx_operation_prepare, tcpx_operation_prepare_notification, tcpx_operation_release,
    tcpx_operation_report_completions, tcpx_operation_status, tcpx_operation_wait,
};
pub use options::{TCPX_GPU_NONE, tcpx_session_options, tcpx_session_options_init};
pub use pairs::{TCPX_MAX_PAIRS, tcpx_pair};
pub use peers::{
    TCPX_PEER_ACCEPTING, TCPX_PEER_CONNECTING, TCPX_PEER_FAILED, TCPX_PEER_LEAVING,
    TCPX_PEER_PARTED, TCPX_PEER_UP, tcpx_session_accept_any, tcpx_session_peer_error,
    tcpx_session_peer_state, tcpx_session_poll_accept_any, tcpx_session_start_accept,
    tcpx_session_start_accept_any, tcpx_session_start_connect, tcpx_session_start_disconnect,
    tcpx_session_stop_accept_any,
};
pub use post::{
    TCPX_MAX_BATCH, tcpx_post, tcpx_transfer_post_recv, tcpx_transfer_post_recv_batch,
    tcpx_transfer_post_send, tcpx_transfer_post_send_batch,
};
pub use session::{
    TCPX_MAX_CONN_INFO_BYTES, tcpx_session, tcpx_session_accept, tcpx_session_close,
    tcpx_session_connect, tcpx_session_create, tcpx_session_destroy, tcpx_session_disconnect,
    tcpx_session_forget_remote_conn_info, tcpx_session_listen, tcpx_session_load_remote_conn_info,
    tcpx_session_progress,
};
pub use stats::{tcpx_session_get_stats, tcpx_session_stats, tcpx_session_stats_json};
pub use status::{tcpx_status, tcpx_status_text};
pub use transfer::{
    TCPX_WAIT_FOREVER, tcpx_session_create_transfer, tcpx_transfer, tcpx_transfer_cancel,
    tcpx_transfer_counts, tcpx_transfer_error, tcpx_transfer_get_counts,
    tcpx_transfer_get_round_counts, tcpx_transfer_is_complete, tcpx_transfer_release,
    tcpx_transfer_set_timeout, tcpx_transfer_wait,
};
pub use version::{tcpx_abi_version, tcpx_version};
