//! Setters of the options, one for each field and with the field's name.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tcpx_protocol::types::encryption::Encryption;
use tcpx_unpack::Choice;

use super::{BounceCreditChoice, CopyThreads, LinkBytes, PluginChoice, SessionOptions};

macro_rules! setters {
    ($($field:ident: $type:ty,)*) => {
        /// Setters of the fields with their names: `SessionOptions::default().channels(4)`.
        impl SessionOptions {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}

setters! {
    plugin: PluginChoice,
    gpu: Option<u32>,
    all_devices: bool,
    emulated_gpus: u32,
    nics: Vec<String>,
    name: impl Into<String>,
    channels: u16,
    connect_channels: bool,
    chunk_bytes: u32,
    unpack: Choice,
    copy_threads: CopyThreads,
    recv_window: usize,
    send_window: usize,
    gather: bool,
    staging_bytes: u64,
    eager_bytes: u32,
    eager_buffer_bytes: u32,
    link_bytes: LinkBytes,
    notification_bytes: u32,
    kept_for_peers_bytes: u64,
    encryption: Encryption,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    accept_all: bool,
    bounce_credit: BounceCreditChoice,
    listen: SocketAddr,
    advertise: Vec<IpAddr>,
    connect_timeout: Duration,
    close_timeout: Duration,
    peer_timeout: Option<Duration>,
    stall_after: Option<Duration>,
    progress_thread: bool,
    preflight: bool,
    keep_sigpipe: bool,
    spin: Duration,
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A field without a setter does not compile here: the pattern names all of them.
    #[test]
    fn every_field_has_its_setter() {
        let time = Duration::from_millis;
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let SessionOptions {
            plugin,
            gpu,
            all_devices,
            emulated_gpus,
            nics,
            name,
            channels,
            connect_channels,
            chunk_bytes,
            unpack,
            copy_threads,
            recv_window,
            send_window,
            gather,
            staging_bytes,
            eager_bytes,
            eager_buffer_bytes,
            link_bytes,
            notification_bytes,
            kept_for_peers_bytes,
            encryption,
            tls_cert,
            tls_key,
            tls_ca,
            accept_all,
            bounce_credit,
            listen,
            advertise,
            connect_timeout,
            close_timeout,
            peer_timeout,
            stall_after,
            progress_thread,
            preflight,
            keep_sigpipe,
            spin,
        } = SessionOptions::default()
            .plugin(PluginChoice::Soft)
            .gpu(Some(3))
            .all_devices(true)
            .emulated_gpus(2)
            .nics(vec!["eth1".into()])
            .name("hub")
            .channels(4)
            .connect_channels(true)
            .chunk_bytes(8192)
            .unpack(Choice::Host)
            .copy_threads(CopyThreads::Count(16))
            .recv_window(5)
            .send_window(6)
            .gather(false)
            .staging_bytes(13)
            .eager_bytes(14)
            .eager_buffer_bytes(15)
            .link_bytes(LinkBytes::Most(17))
            .notification_bytes(16)
            .kept_for_peers_bytes(18)
            .encryption(Encryption::Require)
            .tls_cert(Some("cert.pem".into()))
            .tls_key(Some("key.pem".into()))
            .tls_ca(Some("ca.pem".into()))
            .accept_all(true)
            .bounce_credit(BounceCreditChoice::Off)
            .listen((here, 7).into())
            .advertise(vec![here])
            .connect_timeout(time(8))
            .close_timeout(time(9))
            .peer_timeout(Some(time(10)))
            .stall_after(Some(time(11)))
            .progress_thread(true)
            .preflight(false)
            .keep_sigpipe(true)
            .spin(time(12));
        assert_eq!((plugin, gpu, nics), (PluginChoice::Soft, Some(3), vec!["eth1".to_owned()]));
        assert_eq!((name.as_str(), channels, chunk_bytes), ("hub", Some(4), Some(8192)));
        assert_eq!((unpack, recv_window, send_window), (Choice::Host, 5, 6));
        assert_eq!(copy_threads, CopyThreads::Count(16));
        assert_eq!((gather, staging_bytes), (false, 13));
        assert_eq!((eager_bytes, eager_buffer_bytes, notification_bytes), (14, 15, 16));
        assert_eq!((link_bytes, kept_for_peers_bytes), (LinkBytes::Most(17), 18));
        assert!(connect_channels && encryption == Encryption::Require && accept_all);
        assert!(all_devices && emulated_gpus == 2);
        let files = [tls_cert, tls_key, tls_ca].map(|file| file.expect("it was set"));
        assert_eq!(files, ["cert.pem", "key.pem", "ca.pem"].map(PathBuf::from));
        assert_eq!(bounce_credit, BounceCreditChoice::Off);
        assert_eq!((listen, advertise), ((here, 7).into(), vec![here]));
        assert_eq!((connect_timeout, close_timeout), (time(8), time(9)));
        assert_eq!((peer_timeout, stall_after), (Some(time(10)), Some(time(11))));
        assert_eq!((progress_thread, preflight, keep_sigpipe, spin), (true, false, true, time(12)));
    }
}
