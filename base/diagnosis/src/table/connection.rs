//! TCPX-7xx: problems while comms are made, and at their end.

use crate::diagnosis::diagnoses;

diagnoses! {
CONNECT_WITH_FRESH_HANDLE = 701 Error "each connect poll got a fresh copy of the handle"
    symptom "connections pile up; one is accepted, the others hang in background threads"
    cause "connect keeps its state inside the caller's 128-byte handle"
    cure ["# poll connect with the same buffer until it returns a comm"]
    source "plugin 3.1.9, run"
POLLED_AFTER_ANSWER = 702 FatalForPlugin "connect or accept was called again after its final answer"
    symptom "\"double free detected\", abort"
    cause "the plugin has freed its state, but the caller's handle still points to it"
    cure ["# call connect once per handle and accept once per listen comm"]
    source "plugin 3.1.9, run"
NULL_COMM_TAKEN_AS_FAILURE = 703 Error "a NULL comm was taken as failure"
    symptom "connect seems to fail at once while the peer's accept carries on"
    cause "rc 0 with a NULL comm means not yet; the first call always answers so"
    cure ["# poll again with the same buffer until the comm is there or rc is not 0"]
    source "plugin 3.1.9, run"
LISTEN_COMM_REUSED = 704 FatalForPlugin "a listen comm was used for a second peer"
    symptom "\"double free detected\", abort"
    cause "a listen comm accepts exactly one connection"
    cure ["# listen once for every connection"]
    source "plugin 3.1.9, run"
LISTEN_CLOSED_EARLY = 705 FatalForPlugin "a listen comm was closed before accept had finished"
    symptom "rc 0, then a crash at some later time"
    cause "a helper thread still uses the freed listen comm"
    cure ["# finish accept, then close the listen comm"]
    source "plugin 3.1.9, run"
ACCEPT_WITHOUT_DEVICE_HANDLE = 706 FatalForPlugin "accept got no device handle to fill"
    symptom "SIGSEGV at the end of accept or at the first receive"
    cause "recvDevComm must point to a pointer to 32 bytes"
    cure ["# pass the address of a pointer to a zeroed ncclNetDeviceHandle_v7_t"]
    source "plugin 3.1.9, run"
WRONG_CUDA_DEVICE = 707 Error "listen and accept ran with different CUDA devices"
    symptom "garbage in the received data, no error"
    cause "the steering rule uses listen's current device, the bounce buffer accept's; unset means GPU 0"
    cure ["# select the GPU on the calling thread before listen, connect, accept and regMr"]
    source "plugin 3.1.9, run"
SENT_BEFORE_ACCEPTED = 708 FatalForPlugin "data was sent before the peer's accept had returned"
    symptom "the receiver exits: \"data landed on host memory\" or \"rx no cmsg\""
    cause "accept still waits for the steering rule; packets before it land in host memory, which ends the receiver"
    cure ["# send nothing before the peer has reported that its accept returned; our control link does this"]
    source "plugin 3.1.9, source"
PEER_CLOSED_AFTER_SENDING = 709 Error "test returned 2: \"Connection closed by remote peer\""
    symptom "tcpx_test returns 2 although the data came"
    cause "the end of the control socket is noticed before buffered records are read; the code is not sticky, the next test may deliver the data"
    cure ["# let the receiver confirm before the sender closes; our goodbye replaces any pause"]
    source "plugin 3.1.9, run; transfer flow notes"
CLOSED_WITH_UNFINISHED_SENDS = 710 Error "a comm was closed before its sends were done"
    symptom "the tail of a message is missing; the receiver waits for ever"
    cause "close stops the helper threads without sending what is queued"
    cure ["# test every send until it is done, then say goodbye, then close"]
    source "plugin 3.1.9, run"
KILLED_BY_SIGPIPE = 711 Error "the process was killed by signal 13"
    symptom "the process ends without a message when its peer goes away"
    cause "the plugin writes to sockets without MSG_NOSIGNAL, and SIGPIPE had its default action"
    cure ["unset TCPX_KEEP_SIGPIPE", "# do not set SIGPIPE to its default after a session was made: this library has it ignored with the hardware plugin, unless keep_sigpipe says otherwise"]
    source "plugin 3.1.9, run"
INIT_TWICE = 712 Error "init was called twice, or its result was ignored"
    symptom "init returns 3; devices says -1; later calls crash"
    lines ["net->init rc=3", "gpu lib init twice", "net->devices rc=0 ndev=-1"]
    cause "the plugin can be initialised once per process and has no way back"
    cure ["# call init once per process and stop when it fails"]
    source "plugin 3.1.9, run"
LOGGER_UNSAFE = 713 FatalForPlugin "the log callback is not safe"
    symptom "a crash inside the callback"
    cause "the plugin logs from several threads at once and passes NULL for %s"
    cure ["# make the callback thread-safe and let it accept NULL strings"]
    source "plugin 3.1.9, run"
PEER_VERSION_DIFFERS = 714 Error "the two ends have different versions"
    symptom "\"failed to connect socket\", ncclInternalError, or data that fails verification"
    cause "plugin, RxDM, NCCL and this library must be of matching versions on all hosts; the plugin's own handshake carries no version"
    cure ["tcpx doctor", "# install the same release of plugin and RxDM on both hosts"]
    source "cluster deployments; transfer test guide"
REFUSED_WITHOUT_END = 715 Error "\"Connection refused, retrying\" without end"
    symptom "init or connect repeats the line for minutes"
    cause "the plugin tries a refused address 20000 times; the peer or RxDM is gone, often after a driver or CUDA upgrade"
    cure ["tcpx doctor", "ls -l /run/tcpx", "# start the peer and RxDM first"]
    source "plugin 3.1.9, run; cluster deployments"
RX_CTRL_TIMEOUT = 716 Warning "\"rx ctrl timeout\" is repeated"
    symptom "the line repeats every 30 s and nothing fails"
    lines ["rx recv timeout error n", "tx comp timeout poll"]
    cause "the plugin only reports slowness, it never gives up: the peer sends nothing, is frozen, or has another sequence of operations"
    cure ["# give every wait a deadline; look for the peer's own state"]
    source "plugin 3.1.9, source; user reports"
FAILED_TO_CONNECT_SOCKET = 717 Error "\"failed to connect socket\" or \"failed accept socket\""
    symptom "connect or accept returns 3 after three rounds; with the software plugin 2"
    lines ["Resource exhausted", "failed against receive-datapath-manager", "Create FlowSteerRule Failed"]
    cause "the receiving side could not install its steering rule: RxDM is missing, refuses, or has no free rule; with the software plugin, its own line just before says what the system refused. Or a third party that reads the control link dialled a data channel before the peer did: data sockets are not authenticated, even where the link is"
    cure ["tcpx doctor", "ls -l /run/tcpx", "# where others can read what passes between the two hosts, encrypt it (docs/security.md)"]
    source "plugin 3.1.9, run"
RECV_SYNC_MISMATCH = 718 Error "RECV_SYNC differs between the two ends"
    symptom "sends never finish"
    cause "the sender waits for a count per receive that the receiver does not send"
    cure ["# set NCCL_GPUDIRECTTCPX_RECV_SYNC to the same value on both hosts"]
    source "plugin 3.1.9, run"
STRAY_CONNECTION = 719 Error "a foreign connection reached the plugin's port"
    symptom "connect and accept fail or pair wrongly; port scanners are a known reason"
    cause "the plugin's handshake has no magic, version or connection id"
    cure ["# keep the data subnets closed to other hosts, and connect again"]
    source "plugin 3.1.9, source"
PLUGIN_EXITED = 720 FatalForPlugin "the process ended inside the plugin"
    symptom "exit status 1 without a message of the application"
    cause "cuInit, the import of the bounce buffer, CUDA at accept or close, and receive errors end in exit(1) inside the plugin"
    cure ["tcpx doctor", "# look at the plugin's last WARN line"]
    source "plugin 3.1.9, run"
CLOSE_HANGS = 721 Warning "close does not return"
    symptom "closeRecv blocks"
    cause "it asks RxDM to remove a rule per data socket, and waits without a limit"
    cure ["tcpx doctor", "# restart RxDM"]
    source "plugin 3.1.9, source"
PEER_ENDED = 722 Error "the peer's process ended without a goodbye"
    symptom "\"its control link closed without a goodbye\", or the link failed with a system error"
    cause "the process was killed, crashed, or was ended inside the plugin; or its host went away"
    cure ["# read the peer's log up to its end, then disconnect and connect again", "dmesg | tail"]
    source "this project"
PEER_ABORTED = 723 Error "the peer gave up"
    symptom "\"it aborted:\" and the peer's own error"
    cause "something failed at the other end, which reported it to this end; the cause is there"
    cure ["# read the reason in the message and the peer's log, correct it there, then connect again"]
    source "this project"
PEER_SAID_GOODBYE = 724 Error "the peer has said goodbye"
    symptom "an operation without counterpart ends with \"it said goodbye\""
    cause "the peer disconnected while this end still waited for it, or before this end had posted everything"
    cure ["# let both ends agree on the last message before one disconnects"]
    source "this project"
PEER_DID_NOT_COME = 725 Error "no peer connected in time"
    symptom "\"deadline passed during accept\", connect or handshake; \"it was not connected within\" a time"
    cause "the peer is not running, got other connection info, or a firewall drops its packets, those to the data ports perhaps, which the first large message dials; with the hardware plugin accept itself sleeps for seconds"
    cure ["ss -ltn", "tcpx doctor --peer <ADDRESS>:<PORT>", "# start both ends, and hand over fresh connection info"]
    source "this project"
GOODBYE_UNANSWERED = 726 Warning "the goodbye was not answered in time"
    symptom "\"deadline passed during close\"; \"it did not answer this end's goodbye\""
    cause "the peer makes no progress, is frozen, or has transfers that do not end"
    cure ["# everything is closed at this end; look at what the peer waits for"]
    source "this project"
HANDSHAKE_FAILED = 727 Error "the two ends do not fit together"
    symptom "\"handshake failed\" with both ends' values, or a proof that is wrong"
    cause "other versions, plugins, chunk sizes or channel counts, or connection info of an earlier session"
    cure ["# give both ends the same release and settings, and fresh connection info"]
    source "this project"
CONN_INFO_UNUSABLE = 728 Error "the connection info cannot be read"
    symptom "\"connection info:\" damaged, cut short, or of another version"
    cause "the bytes were changed on their way, or come from something else"
    cure ["# hand over exactly the bytes that listen returned; they may contain NUL"]
    source "this project"
PROTOCOL_BROKEN = 729 Error "the peer broke the control link's protocol"
    symptom "\"broke the control link protocol\" with what came"
    cause "the two ends run different builds, something else writes to the connection, or a fault in this library"
    cure ["# install the same release at both ends; report it if they are"]
    source "this project"
PLUGIN_CALL_FAILED = 730 Error "a call into the plugin failed"
    symptom "\"plugin call <NAME> returned n\""
    cause "the plugin's last WARN line says why"
    cure ["export UCCL_TCPX_DEBUG=1", "tcpx doctor", "# look at the plugin's last WARN line in the log"]
    source "this project"
PEER_SILENT = 731 Error "the peer gives no sign of life"
    symptom "\"nothing was heard of it for n s, though it was asked\", or \"its host has acknowledged nothing for n s\""
    cause "its process or host is frozen or stopped, or the network between the two is cut"
    cure ["ping <ADDRESS>", "# look whether the peer's process is stopped (state T in ps), then connect again"]
    source "this project"
DATA_PATH_CUT = 732 Error "the data path to the peer is cut"
    symptom "\"it has sent n chunks on channel n, n have arrived\", or \"plugin call checkComm returned 2\""
    cause "a firewall has forgotten an idle flow or drops the data ports, a data NIC is down or its route is gone, or a data connection was reset, though the control link may live; where bytes do arrive, the bounce pages of this end may have run out (TCPX-815)"
    cure ["ss -tnoi dst <ADDRESS>", "# let the firewalls between the two pass every port of the data NICs, and keep idle flows for longer; then connect again"]
    source "this project"
PLUGIN_CALL_HANGS = 733 Error "a call into the plugin does not return"
    symptom "\"plugin call <NAME> has not returned for n s\"; `plugin_calls_hung` of the statistics is above 0"
    cause "the plugin waits for another process, a thread of its own or the GPU, without a limit of time; with the hardware plugin mostly for RxDM (TCPX-505, TCPX-506)"
    cure ["tcpx doctor", "# look at the plugin's last WARN line; the call and its comm are left behind, other peers go on: restart this process when it can be"]
    source "plugin 3.1.9, run"
CLOSED_WITH_UNCONSUMED_RECEIVES = 734 Info "a comm was closed before all its receives were consumed"
    symptom "\"some pages not yet freed\" when a receive comm is closed"
    cause "pages of unconsumed receives are still in use; the kernel frees them with the sockets"
    cure ["# call irecvConsumed for every receive, empty ones too, and close then"]
    source "plugin 3.1.9, source"
ADDRESS_UNUSABLE = 735 Error "a server's address cannot be used"
    symptom "\"server address <TEXT>\" and what is wrong with it, or an answer of the name service"
    cause "host or port is missing, the port is 0, an IPv6 address with a port has no brackets, or the name cannot be resolved"
    cure ["# write 10.0.0.1, 10.0.0.1:12345, [fe80::1]:12345 or a host name; the server shows where it listens"]
    source "this project"
PEER_KEPT_MEMORY = 736 Error "the peer did not release revoked memory"
    symptom "\"it did not release revoked memory within 5s\""
    cause "an export was revoked, or memory deregistered, while an operation with the peer used it, and the peer neither finished nor stopped: its program makes no progress, or it is frozen"
    cure ["# give the other end a progress thread (progress_thread, TCPX_PROGRESS_THREAD=1)", "# revoke exports when no operation uses them"]
    source "this project"
TOKEN_DIFFERS = 737 Error "the two ends have no token in common"
    symptom "\"has another token\", \"requires a token\" or \"asks for no token\", when two `tcpx` commands meet"
    cause "the server was started with --token and the client without or with another, or the other way round; or something else answers at that address"
    cure ["tcpx perf server --token auto", "# give the client the token that the server shows: tcpx perf client <ADDRESS> --token <TOKEN>, or --token @FILE on both"]
    source "this project"
LINK_TAMPERED = 738 Error "bytes on an encrypted control link are not what the peer sent"
    symptom "\"record n on its control link is not the one that it sent\", of a peer with which the link is encrypted (TCPX_ENCRYPTION)"
    cause "something between the two hosts changes, leaves out, repeats or puts in bytes of the connection: an attacker, or a proxy, a middlebox or a NIC that alters what it passes on. Nothing of the record was used, and the peer has ended; other peers go on"
    cure ["ss -tni dst <ADDRESS>", "# find out what passes the connection on, and connect again over a way that you trust; see docs/security.md"]
    source "this project"
FOREIGN_ADDRESS = 739 Error "a peer's data channel is not where the peer is"
    symptom "\"it wants channel n dialled at\" an address"
    cause "the peer's channels run over a NIC whose address is neither that of its control link nor in the connection info that this end has loaded for it; or a peer that has the secret wants this end to connect to another host. Nothing was dialled"
    cure ["# load the peer's connection info at this end too (load_remote_conn_info), or name the NICs at this end (nics, TCPX_NIC)", "# see docs/security.md"]
    source "this project"
ENCRYPTION_DIFFERS = 741 Error "the two ends do not agree on encryption"
    symptom "\"encryption = off here, require there\""
    cause "one session requires encryption and the other has it off, which is the default. Nothing was sent"
    cure ["export TCPX_ENCRYPTION=require", "# at both ends; connection info that was given out before is of the old setting: give out the new one"]
    source "this project"
KEY_NOT_PINNED = 742 Error "the key of the other end is not the one that its connection info pins"
    symptom "\"the key of the other end is not the one that its connection info pins\", or \"is not that of the key with which it has proven itself\""
    cause "another session listens at the address, which has the secret of the connection info but not the key of its session: an attacker on the way that has read connection info, or a session that names itself after another. Nothing was sent"
    cure ["# load the peer's newest connection info, and hand it out over a way that others cannot read; see docs/security.md"]
    source "this project"
KEY_EXCHANGE_FAILED = 743 Error "the exchange of keys failed"
    symptom "\"the exchange of keys failed\" with what is wrong"
    cause "the bytes of the exchange were changed on the way, or the two ends run different builds"
    cure ["# install the same release at both ends; find out what passes the connection on, if they are"]
    source "this project"
DATA_NOT_ENCRYPTED = 744 Error "the transport cannot encrypt"
    symptom "\"encryption = require: the transport <NAME> cannot encrypt\", or a warning of a session with encryption = prefer"
    cause "the hardware plugin, device-memory TCP and io_uring have a NIC or the kernel place the bytes, which encrypt nothing; a plugin of another maker has no way to be asked"
    cure ["export TCPX_PLUGIN=soft", "# over plain sockets; or use a network that encrypts, and encryption = off"]
    source "this project"
CREDENTIALS_DIFFER = 745 Error "one end has a certificate, and the other does not"
    symptom "\"a certificate here, no certificate there\", or the other way round"
    cause "only one of the two sessions has files of certificates, so neither can check the other. Nothing was sent"
    cure ["# set TCPX_TLS_CERT, TCPX_TLS_KEY and TCPX_TLS_CA at both ends, or at neither, and give out new connection info; see docs/security.md"]
    source "this project"
CERTIFICATE_ISSUER_UNKNOWN = 746 Error "no authority of this end has issued the certificate of the other"
    symptom "\"the certificate of the other end is refused: no authority in tls_ca has issued it\""
    cause "the file of tls_ca lacks the authority of the other end: it was removed there, as a revocation does, or never was there; or the other end's file of tls_cert lacks the certificates between its own and the authority; or an attacker made the certificate"
    cure ["openssl verify -CAfile <tls_ca> -untrusted <tls_cert of the other end> <tls_cert of the other end>", "# put the authority into the file of tls_ca: it serves from the next link on"]
    source "RFC 5280, section 6"
CERTIFICATE_EXPIRED = 747 Error "a certificate has expired"
    symptom "\"the certificate of the other end is refused: it has expired\", or a finding of tcpx doctor"
    cause "nothing has replaced the file of tls_cert in time, or the clock of one of the hosts is wrong"
    cure ["openssl x509 -noout -dates -in <tls_cert>", "date -u", "# replace the files of tls_cert and tls_key: they serve from the next link on, without a restart"]
    source "RFC 5280, section 4.1.2.5"
CERTIFICATE_NOT_YET_VALID = 748 Error "a certificate is not valid yet"
    symptom "\"the certificate of the other end is refused: it is not valid yet\", or a finding of tcpx doctor"
    cause "the clock of one of the hosts is wrong, or the certificate was made for a later time"
    cure ["openssl x509 -noout -dates -in <tls_cert>", "date -u", "# set the clock of the host where it is wrong: timedatectl says whether it is synchronised"]
    source "RFC 5280, section 4.1.2.5"
CERTIFICATE_OF_ANOTHER_NAME = 749 Error "the certificate of a peer is not for its name"
    symptom "\"the name <NAME> is not among its subject alternative names\", or \"the peer says no name of its own\""
    cause "the connecting session's name, or the name under which this end has loaded the connection info of the listening one, is not a DNS name or address in the peer's certificate; or a holder of another certificate poses as the peer"
    cure ["openssl x509 -noout -ext subjectAltName -in <tls_cert of the peer>", "# name sessions as their certificates do (SessionOptions::name and load_remote_conn_info, the agent of NIXL), or make certificates for the names; see docs/security.md"]
    source "RFC 6125; RFC 5280, section 4.2.1.6"
CERTIFICATE_UNFIT = 750 Error "a certificate cannot be used"
    symptom "\"the certificate of the other end is refused\" with another reason"
    cause "its extended key usage allows only one of server and client where both are needed, its form is wrong, or it is signed in a way that is not taken"
    cure ["openssl x509 -noout -text -in <tls_cert of the peer>", "# make it of version 3, with serverAuth and clientAuth or without extended key usage, signed with ECDSA, Ed25519 or RSA of 2048 bits or more"]
    source "RFC 5280, section 4.2.1.12"
CERTIFICATE_SETTINGS = 751 Error "the settings of certificates do not fit together"
    symptom "\"tls_cert, tls_key and tls_ca belong together\", or \"certificates serve encryption only\""
    cause "only some of TCPX_TLS_CERT, TCPX_TLS_KEY and TCPX_TLS_CA are set, or encryption is off"
    cure ["export TCPX_ENCRYPTION=require", "# name all three files, or none"]
    source "this project"
CERTIFICATE_FILE_MISSING = 752 Error "a file of certificates is missing"
    symptom "\"there is no such file\" with tls_cert, tls_key or tls_ca"
    cause "the path is wrong, or nothing has put the file there yet"
    cure ["ls -l <PATH>", "# correct TCPX_TLS_CERT, TCPX_TLS_KEY or TCPX_TLS_CA"]
    source "this project"
CERTIFICATE_FILE_UNUSABLE = 753 Error "a file of certificates cannot be read or used"
    symptom "\"the file cannot be read\" or \"the file cannot be used\" with tls_cert, tls_key or tls_ca"
    cause "the process may not read it, or it does not hold what its setting says, in PEM"
    cure ["ls -l <PATH>", "openssl x509 -noout -text -in <PATH>", "openssl pkey -noout -in <PATH>"]
    source "RFC 7468"
CERTIFICATE_KEY_DIFFERS = 754 Error "the private key is not that of the certificate"
    symptom "\"the private key is not that of the certificate in tls_cert\""
    cause "tls_key and tls_cert come from different requests, or one of them has been replaced and the other not yet"
    cure ["openssl x509 -noout -pubkey -in <tls_cert>", "openssl pkey -pubout -in <tls_key>", "# the two must print the same"]
    source "this project"
DATA_TAMPERED = 760 Error "bytes on an encrypted channel are not what the peer sent"
    symptom "a transfer with a peer fails, and the log says of a data socket \"it does not decrypt\""
    cause "something between the two hosts changes, leaves out, repeats or puts in bytes of a connection: an attacker, or a proxy, a middlebox or a NIC that alters what it passes on. Nothing of the record was delivered, and the peer has ended; other peers go on"
    cure ["ss -tni dst <ADDRESS>", "# find out what passes the connection on, and connect again over a way that you trust; see docs/security.md"]
    source "this project"
}
