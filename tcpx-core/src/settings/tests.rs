//! Tests of settings from the environment, and of their ranges.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tcpx_diagnosis::variables::{Kind, LibrarySetting, Reader, library_settings};

use super::*;

fn from(pairs: &[(&'static str, &str)]) -> Result<SessionOptions> {
    SessionOptions::default()
        .with_lookup(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.into()))
}

#[test]
fn own_names_win_over_the_documents_names() {
    let options =
        from(&[("UCCL_TCPX_NUM_CHANNELS", "8"), ("UCCL_TCPX_CHUNK_BYTES", "65536")]).unwrap();
    assert_eq!((options.channels, options.chunk_bytes), (Some(8), Some(65_536)));
    let options = from(&[("UCCL_TCPX_NUM_CHANNELS", "8"), ("TCPX_CHANNELS", "3")]).unwrap();
    assert_eq!(options.channels, Some(3));
}

#[test]
fn empty_is_unset_and_nonsense_is_named() {
    let options = from(&[("TCPX_CHANNELS", ""), ("TCPX_CHUNK_BYTES", "")]).unwrap();
    assert_eq!((options.channels, options.chunk_bytes), (None, None));
    let error = from(&[("UCCL_TCPX_CHUNK_BYTES", "512K")]).unwrap_err().to_string();
    assert!(error.contains("UCCL_TCPX_CHUNK_BYTES") && error.contains("512K"), "{error}");
    let error = from(&[("UCCL_TCPX_UNPACK_IMPL", "gpu")]).unwrap_err().to_string();
    assert!(error.contains("UCCL_TCPX_UNPACK_IMPL") && error.contains("d2d"), "{error}");
}

#[test]
fn a_plugin_that_needs_a_gpu_refuses_a_session_without_one() {
    let without = SessionOptions::default();
    assert!(without.check_gpu(false).is_ok());
    assert!(SessionOptions::default().gpu(Some(0)).check_gpu(true).is_ok());
    let refused = without.check_gpu(true).unwrap_err().to_string();
    assert!(refused.starts_with("gpu = none: ") && refused.ends_with("[TCPX-229]"), "{refused}");
}

#[test]
fn ranges_are_checked_with_their_limits_named() {
    for (options, words) in [
        (SessionOptions::default().channels(65), "must be 0 to 64"),
        (SessionOptions::default().channels(9999), "must be 0 to 64"),
        (SessionOptions { chunk_bytes: Some(4095), ..Default::default() }, "4096 to 4194304"),
        (SessionOptions { chunk_bytes: Some(u32::MAX), ..Default::default() }, "4096 to 4194304"),
        (SessionOptions::default().copy_threads(CopyThreads::Count(65)), "must be 0 to 64"),
        (SessionOptions { recv_window: 17, ..Default::default() }, "1 to 16"),
        (SessionOptions { send_window: 0, ..Default::default() }, "1 to 16"),
        (SessionOptions { eager_bytes: 65_537, ..Default::default() }, "must be 0 to 65536"),
        (
            SessionOptions { eager_buffer_bytes: u32::MAX, ..Default::default() },
            "must be 0 to 1073741824",
        ),
        (
            SessionOptions::default().kept_for_peers_bytes((1 << 40) + 1),
            "must be 0 to 1099511627776",
        ),
        (SessionOptions { name: "x".repeat(65), ..Default::default() }, "65 bytes"),
        (
            SessionOptions { stall_after: Some(Duration::ZERO), ..Default::default() },
            "must be 1 to 86400000",
        ),
        (
            SessionOptions { peer_timeout: Some(Duration::ZERO), ..Default::default() },
            "must be 100 to 86400000",
        ),
    ] {
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(SessionOptions::default().check().is_ok());
    assert!(SessionOptions { peer_timeout: None, ..Default::default() }.check().is_ok());
}

#[test]
fn a_peer_timeout_of_zero_is_none() {
    let timeout = |text| from(&[("TCPX_PEER_TIMEOUT_MS", text)]).unwrap().peer_timeout;
    assert_eq!(timeout("1500"), Some(Duration::from_millis(1_500)));
    assert_eq!(timeout("0"), None);
    assert_eq!(timeout(""), Some(Duration::from_secs(10)));
}

#[test]
fn standing_still_may_be_watched_or_not() {
    let stall_after = |text| from(&[("TCPX_STALL_AFTER_MS", text)]).unwrap().stall_after;
    assert_eq!(stall_after("1500"), Some(Duration::from_millis(1_500)));
    assert_eq!(stall_after("0"), None);
}

#[test]
fn staging_memory_may_be_any_amount_and_none() {
    let bytes = |text| from(&[("TCPX_STAGING_BYTES", text)]).map(|options| options.staging_bytes);
    assert_eq!(bytes("").unwrap(), 256 << 20);
    assert_eq!(bytes("1048576").unwrap(), 1 << 20);
    assert!(from(&[("TCPX_STAGING_BYTES", "0")]).unwrap().check().is_ok());
    assert!(bytes("256M").is_err());
}

#[test]
fn what_peers_make_a_session_keep_may_be_any_amount_and_none() {
    let bytes = |text| {
        from(&[("TCPX_KEPT_FOR_PEERS_BYTES", text)]).map(|options| options.kept_for_peers_bytes)
    };
    assert_eq!(bytes("").unwrap(), 256 << 20);
    assert_eq!(bytes("1048576").unwrap(), 1 << 20);
    assert!(from(&[("TCPX_KEPT_FOR_PEERS_BYTES", "0")]).unwrap().check().is_ok());
    assert!(bytes("256M").is_err());
}

#[test]
fn small_messages_on_the_link_may_be_of_any_length_up_to_the_limit_and_none() {
    let read = |text| {
        let options = from(&[("TCPX_EAGER_BYTES", text), ("TCPX_EAGER_BUFFER_BYTES", text)]);
        options.map(|options| (options.eager_bytes, options.eager_buffer_bytes))
    };
    assert_eq!(read("").unwrap(), (16 << 10, 256 << 10));
    assert_eq!(read("0").unwrap(), (0, 0));
    assert!(from(&[("TCPX_EAGER_BYTES", "65536")]).unwrap().check().is_ok());
    assert!(read("8K").unwrap_err().to_string().contains("TCPX_EAGER_BYTES"));
}

#[test]
fn credit_is_asked_for_by_name() {
    let credit = |text| from(&[("TCPX_BOUNCE_CREDIT", text)]).map(|options| options.bounce_credit);
    assert_eq!(credit("auto").unwrap(), BounceCreditChoice::Auto);
    assert_eq!(credit("on").unwrap(), BounceCreditChoice::On);
    assert_eq!(credit("off").unwrap().to_string(), "off");
    assert_eq!(credit("").unwrap(), BounceCreditChoice::Auto);
    assert!(credit("1").unwrap_err().to_string().contains("auto, on or off"));
}

#[test]
fn threads_that_copy_are_a_number_or_auto() {
    let read = |text| from(&[("TCPX_COPY_THREADS", text)]).map(|options| options.copy_threads);
    assert_eq!(read("").unwrap(), CopyThreads::Auto);
    assert_eq!(read("auto").unwrap(), CopyThreads::Auto);
    assert_eq!(read("0").unwrap(), CopyThreads::Count(0));
    assert_eq!(read("6").unwrap().to_string(), "6");
    assert!(read("-1").unwrap_err().to_string().contains("auto or 0 to 64"));
}

#[test]
fn gathering_can_be_switched_off() {
    let gather = |text| from(&[("TCPX_GATHER", text)]).unwrap().gather;
    assert_eq!([gather(""), gather("1"), gather("0")], [true, true, false]);
}

#[test]
fn switches_are_on_or_off_as_said() {
    let switches = |text| {
        let options = from(&[("TCPX_PREFLIGHT", text), ("TCPX_KEEP_SIGPIPE", text)]).unwrap();
        (options.preflight, options.keep_sigpipe)
    };
    assert_eq!(
        [switches(""), switches("0"), switches("1")],
        [(true, false), (false, false), (true, true)]
    );
}

fn session_settings() -> impl Iterator<Item = &'static LibrarySetting> {
    library_settings().iter().filter(|setting| setting.reader == Reader::Session)
}

#[test]
fn the_table_of_settings_has_exactly_what_a_session_reads() {
    let asked = RefCell::new(BTreeSet::new());
    let options = SessionOptions::default().with_lookup(|name| {
        asked.borrow_mut().insert(name);
        None
    });
    assert!(options.is_ok());
    assert_eq!(asked.into_inner(), session_settings().flat_map(LibrarySetting::names).collect());
}

#[test]
fn a_session_takes_what_the_table_of_settings_allows_and_nothing_else() {
    let takes = |name: &'static str, text: &str| {
        from(&[(name, text)]).is_ok_and(|options| options.check().is_ok())
    };
    for setting in session_settings() {
        let (min, max) = match setting.kind {
            // For a switch any number but 0 means on.
            Kind::Switch => (0, i64::MAX),
            Kind::Integer { min, max } => (min, max),
            Kind::ZeroOr { min, max } => {
                assert!(takes(setting.name, "0"), "{}", setting.name);
                (min, max)
            }
            Kind::AutoOr { max } => {
                assert!(takes(setting.name, "auto") && !takes(setting.name, "off"));
                (0, max)
            }
            Kind::Choice { words } => {
                assert!(words.iter().all(|word| takes(setting.name, word)), "{}", setting.name);
                assert!(!takes(setting.name, "nonsense"), "{}", setting.name);
                continue;
            }
            _ => continue,
        };
        for name in setting.names() {
            assert!(takes(name, &min.to_string()), "{name}={min}");
            assert!(takes(name, &max.to_string()), "{name}={max}");
            assert!(!takes(name, &format!("{max}0")) || max == i64::MAX, "{name}={max}0");
            let below = min - 1;
            let is_zero_or = matches!(setting.kind, Kind::ZeroOr { .. }) && below == 0;
            assert!(is_zero_or || !takes(name, &below.to_string()), "{name}={below}");
            assert!(!takes(name, "64K"), "{name}=64K");
        }
    }
}

#[test]
fn what_travels_on_the_link_is_a_number_of_bytes_or_auto() {
    let read = |text| from(&[("TCPX_LINK_BYTES", text)]).map(|options| options.link_bytes);
    assert_eq!(read("").unwrap(), LinkBytes::Auto);
    assert_eq!(read("auto").unwrap(), LinkBytes::Auto);
    assert_eq!(read("0").unwrap(), LinkBytes::Most(0));
    assert_eq!(read("65536").unwrap().to_string(), "65536");
    assert!(read("-1").unwrap_err().to_string().contains("auto or a number of bytes"));
}

#[test]
fn encryption_is_asked_for_by_name() {
    let read = |text| from(&[("TCPX_ENCRYPTION", text)]).map(|options| options.encryption);
    assert_eq!(read("").unwrap(), Encryption::Off);
    assert_eq!(read("prefer").unwrap(), Encryption::Prefer);
    assert_eq!(read("require").unwrap(), Encryption::Require);
    let error = read("1").unwrap_err().to_string();
    assert!(error.contains("TCPX_ENCRYPTION") && error.contains("off, prefer or require"));
}
