//! Tests of `tcpx doctor`, `env`, `explain` and `devices` on the machine that runs the tests,
//! whatever it is.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::Command;

use crate::tcpx::{NO_SERVER, Tcpx};

const PROFILE_VARIABLE: &str = "NCCL_GPUDIRECTTCPX_TX_BINDINGS";

fn codes(report: &serde_json::Value) -> BTreeSet<&str> {
    report["findings"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect()
}

#[test]
fn the_doctors_text_object_and_exit_status_agree() {
    for plugin in ["soft", "/nonexistent/plugin.so"] {
        let words = ["doctor", "--plugin", plugin, "--min-severity", "info"];
        let (text, object) =
            (Tcpx::new(&words).run(), Tcpx::new(&[&words[..], &["--json"]].concat()).run());
        let report = object.object();
        assert_eq!(report["transport"]["plugin"], plugin);
        assert_eq!(object.status, report["exit_status"].as_i64().map(|it| it as i32), "{object}");
        assert_eq!(text.status, object.status, "{text}");
        let findings = report["findings"].as_array().unwrap();
        assert!(!findings.is_empty(), "{object}");
        for (row, finding) in findings.iter().enumerate() {
            let word = |name: &str| finding[name].as_str().unwrap().to_owned();
            let line =
                format!("{:>2}. {} {}: {}", row + 1, word("id"), word("severity"), word("seen"));
            assert!(text.stdout.contains(&line), "{line}: {text}");
            assert!(text.stdout.contains(&word("why")), "{text}");
            for cure in finding["cure"].as_array().unwrap() {
                assert!(text.stdout.contains(cure.as_str().unwrap()), "{text}");
            }
        }
        assert!(text.stderr.is_empty() && object.stderr.is_empty(), "{text}{object}");
    }
}

#[test]
fn a_textfile_says_what_the_object_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tcpx.prom");
    let words = ["doctor", "--json", "--plugin", "/nonexistent/plugin.so", "--textfile"];
    let finished = Tcpx::new(&[&words[..], &[file.to_str().unwrap()]].concat()).run();
    assert_eq!(finished.status, Some(3), "{finished}");
    let page = std::fs::read_to_string(&file).unwrap();
    for code in codes(&finished.object()) {
        assert!(page.contains(&format!("tcpx_doctor_finding{{id=\"{code}\",")), "{code}: {page}");
    }
    assert!(page.contains("\ntcpx_doctor_exit_status 3\n"), "{page}");
    // Wrong flags are no examination.
    let refused = Tcpx::new(&["doctor", "--textfile", "/dev/null"]).run();
    assert_eq!(refused.status, Some(64), "{refused}");
    assert!(
        refused.stderr.contains("--textfile /dev/null: it exists and is no regular file"),
        "{refused}"
    );
}

#[test]
fn a_bundle_has_all_of_it_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("case.tar.gz");
    let words = ["doctor", "--plugin", "soft", "--json", "--bundle", file.to_str().unwrap()];
    let bundle = || {
        // Neither name nor value is known; the name looks like one that is.
        let tcpx = Tcpx::new(&words).env("TCPX_AUTH_TOKEN", "hush-hush-1");
        tcpx.env("NCCL_DYNAMIC_CHUNK_SIZE", "hush-hush-1").run()
    };
    let finished = bundle();
    assert!(finished.stderr.contains("check it before you send it"), "{finished}");
    let report = finished.object();
    let unpacked =
        Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(folder.path()).status().unwrap();
    assert!(unpacked.success());
    let read = |name: &str| {
        let path = folder.path().join("tcpx-bundle").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let doctor: serde_json::Value = serde_json::from_str(&read("doctor.json")).unwrap();
    assert_eq!(codes(&doctor), codes(&report));
    let environment = read("environment.txt");
    assert!(environment.contains("NCCL_DYNAMIC_CHUNK_SIZE=(removed)"), "{environment}");
    assert!(read("devices.txt").contains("GPU") && read("tool.json").contains("\"tcpx\":\"0."));
    for name in ["kernel.log", "doctor.txt", "system/proc/version", "system/proc/net/netstat"] {
        assert!(read(name).len() > 5, "{name}");
    }
    let mut secrets = Command::new("grep");
    secrets.args(["-r", "hush-hush"]).arg(folder.path().join("tcpx-bundle"));
    assert_eq!(secrets.status().unwrap().code(), Some(1), "no file has it");
    // A file that is there is kept.
    let refused = bundle();
    assert_eq!(refused.status, Some(64), "{refused}");
    assert!(refused.stderr.contains("File exists"), "{refused}");
}

#[test]
fn a_missing_plugin_is_fatal_and_named() {
    let finished = Tcpx::new(&["doctor", "--plugin", "/nonexistent/plugin.so", "--json"]).run();
    assert_eq!(finished.status, Some(3), "{finished}");
    let report = finished.object();
    assert_eq!(report["worst"], "fatal-for-plugin");
    assert!(codes(&report).contains("TCPX-201"), "{finished}");
    let variable =
        Tcpx::new(&["doctor", "--json"]).env("TCPX_PLUGIN", "/nonexistent/plugin.so").run();
    assert_eq!(variable.object()["findings"], report["findings"]);
}

#[test]
fn a_nic_and_a_peer_narrow_and_widen_the_examination() {
    let loopback = Tcpx::new(&["doctor", "--json", "--nic", "lo"]).run();
    assert_eq!(loopback.object()["nic"], "lo");
    assert!(!loopback.stdout.contains("eth0:"), "{loopback}");
    for (flag, value, words) in
        [("--nic", "nosuchnic0", "this machine has "), ("--gpu", "4711", "this machine has ")]
    {
        let unknown = Tcpx::new(&["doctor", "--json", flag, value]).run();
        assert_eq!(unknown.status, Some(64), "{unknown}");
        assert!(unknown.stderr.contains(&format!("{flag} {value}: {words}")), "{unknown}");
        assert!(unknown.stdout.is_empty(), "{unknown}");
    }

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let there = Tcpx::new(&["doctor", "--json", "--peer", &address]).run();
    assert!(codes(&there.object()).contains("TCPX-909"), "{there}");
    assert!(!codes(&there.object()).contains("TCPX-607"), "{there}");
    let gone = Tcpx::new(&["doctor", "--json", "--peer", NO_SERVER]).run();
    assert!(codes(&gone.object()).contains("TCPX-607"), "{gone}");

    let nonsense = Tcpx::new(&["doctor", "--peer", "127.0.0.1"]).run();
    assert_eq!(nonsense.status, Some(64), "{nonsense}");
    assert!(nonsense.stderr.contains("ADDR:PORT") && nonsense.stdout.is_empty(), "{nonsense}");
}

#[test]
fn wrong_flags_do_not_look_like_a_finding() {
    for words in [
        &["doctor", "--no-such-flag"][..],
        &["doctor", "--watch", "0"],
        &["doctor", "--env", "--watch", "1"],
    ] {
        let refused = Tcpx::new(words).run();
        assert_eq!(refused.status, Some(64), "{refused}");
        assert!(refused.stdout.is_empty() && refused.stderr.starts_with("error: "), "{refused}");
    }
}

#[test]
fn the_nics_counters_are_watched() {
    let finished = Tcpx::new(&["doctor", "--json", "--nic", "lo", "--watch", "1"]).run();
    // Nothing counts packets of the loopback interface into device memory.
    let report = finished.object();
    assert!(codes(&report).contains("TCPX-410"), "{finished}");
    assert_eq!(finished.status, report["exit_status"].as_i64().map(|it| it as i32), "{finished}");
}

#[test]
fn the_environment_is_shown_and_judged() {
    let shown = Tcpx::new(&["env"]).env("NCCL_DYNAMIC_CHUNK_SIZE", "524288").run();
    assert_eq!(shown.status, Some(0), "{shown}");
    assert!(shown.stdout.contains("set      NCCL_DYNAMIC_CHUNK_SIZE=524288"), "{shown}");

    let for_hardware = ["doctor", "--env", "--plugin", "/nonexistent/plugin.so"];
    let judged = Tcpx::new(&for_hardware).env("NCCL_DYNAMIC_CHUNK_SIZE", "512K").run();
    assert_eq!(judged.status, Some(2), "{judged}");
    for words in ["WRONG    NCCL_DYNAMIC_CHUNK_SIZE=512K  [TCPX-102]", "TCPX-102 error: "] {
        assert!(judged.stdout.contains(words), "{words}: {judged}");
    }
    let own = Tcpx::new(&["doctor", "--env"])
        .env("TCPX_CHANNELS", "99")
        .env("UCCL_TCPX_NUM_CHANNELS", "8")
        .env("TCPX_CHANELS", "4")
        .run();
    for words in [
        "WRONG    TCPX_CHANNELS=99  [TCPX-133 TCPX-134]  # channels to each peer",
        "TCPX-133 error: TCPX_CHANNELS=99: legal is 0..64",
        "TCPX-134 warning: TCPX_CHANNELS=99 and UCCL_TCPX_NUM_CHANNELS=8",
        "TCPX-110 warning: TCPX_CHANELS is set; did you mean TCPX_CHANNELS?",
        "unset    TCPX_UNPACK (default auto)  # how fragments are copied",
    ] {
        assert!(own.stdout.contains(words), "{words}: {own}");
    }
    let unset = Tcpx::new(&[&for_hardware[..], &["--json"]].concat()).run();
    assert_eq!(unset.status, Some(3), "{unset}");
    let report = unset.object();
    assert!(codes(&report).contains("TCPX-101"), "{unset}");
    assert!(report["variables"].as_array().unwrap().len() > 40, "{unset}");
}

#[test]
fn a_variable_is_as_bad_alone_as_in_the_whole_examination() {
    for plugin in ["soft", "/nonexistent/plugin.so"] {
        let severity = |words: &[&str]| {
            let words = [&["doctor", "--json", "--plugin", plugin], words].concat();
            let finished = Tcpx::new(&words).run();
            let report = finished.object();
            let found = report["findings"].as_array().unwrap().iter();
            found.clone().find(|it| it["id"] == "TCPX-101").unwrap()["severity"].clone()
        };
        let expected = if plugin == "soft" { "info" } else { "fatal-for-plugin" };
        assert_eq!([severity(&[]), severity(&["--env"])], [expected, expected]);
    }
}

#[test]
fn findings_are_left_out_by_their_severity() {
    let run = |words: &[&str]| {
        Tcpx::new(&[&["doctor", "--env", "--plugin", "soft"], words].concat()).run()
    };
    let folded = run(&[]);
    assert!(folded.stdout.contains(" not shown, see --min-severity info: TCPX-101 "), "{folded}");
    assert!(!folded.stdout.contains("TCPX-101 info: "), "{folded}");
    let whole = run(&["--min-severity", "info"]);
    assert!(whole.stdout.contains("TCPX-101 info: "), "{whole}");
    assert!(codes(&run(&["--json"]).object()).contains("TCPX-101"));
    assert!(codes(&run(&["--json", "--min-severity", "error"]).object()).is_empty());
}

/// Over the software plugin, on a machine without GPUs and RxDM, that is most of what there is.
#[test]
fn findings_about_absent_hardware_have_one_line() {
    let words = ["doctor", "--plugin", "soft"];
    let (text, object) =
        (Tcpx::new(&words).run(), Tcpx::new(&[&words[..], &["--json"]].concat()).run());
    let report = object.object();
    let of = |is_info: bool| {
        let findings = report["findings"].as_array().unwrap().iter();
        let of_severity = findings.filter(move |it| (it["severity"] == "info") == is_info);
        of_severity.map(|it| it["id"].as_str().unwrap()).collect::<Vec<_>>()
    };
    let (milder, graver) = (of(true), of(false));
    assert!(milder.len() > 5, "{object}");
    let folded: Vec<&str> =
        text.stdout.lines().filter(|it| it.contains(" not shown, see ")).collect();
    let [folded] = folded[..] else { panic!("one line: {text}") };
    let named: BTreeSet<&str> =
        folded.split_whitespace().filter(|it| it.starts_with("TCPX-")).collect();
    assert_eq!(named, milder.iter().copied().collect(), "{text}");
    assert!(folded.starts_with(&format!("{} milder findings ", milder.len())), "{text}");
    // Of the others each has its paragraph.
    assert_eq!(text.stdout.matches("why: ").count(), graver.len(), "{text}");
}

#[test]
fn the_environment_is_compared_with_a_profile() {
    for words in [&["--env"][..], &[]] {
        let words = [&["doctor", "--json", "--profile", "a3-high"], words].concat();
        let compared = Tcpx::new(&words)
            .env("NCCL_PROTO", "LL")
            .env("NCCL_DYNAMIC_CHUNK_SIZE", "524288")
            .env("NCCL_P2P_NET_CHUNKSIZE", "1048576")
            .run();
        let report = compared.object();
        let seen: Vec<&str> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["seen"].as_str().unwrap())
            .collect();
        for expected in [
            "NCCL_PROTO=LL, the A3 High profile has Simple",
            "NCCL_ALGO is unset, the A3 High profile has Ring",
            "NCCL_CROSS_NIC is unset, the A3 High profile has 0",
            "NCCL_P2P_NET_CHUNKSIZE=1048576, NCCL_DYNAMIC_CHUNK_SIZE=524288",
        ] {
            assert!(seen.contains(&expected), "{expected}: {seen:?}");
        }
    }
}

#[test]
fn an_nccl_that_may_choose_a_wrong_algorithm_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for (version, algorithms, expected) in [
        ("2.28.9", None, true),
        ("2.28.9", Some("Ring,PAT"), true),
        ("2.28.9", Some("Ring"), false),
        ("2.19.3", None, false),
    ] {
        let text = format!("NCCL version {version}+cuda13.0");
        std::fs::write(folder.path().join("libnccl.so.2"), text).unwrap();
        let doctor = Tcpx::new(&["doctor", "--env", "--json", "--profile", "a3-high"])
            .env("LD_LIBRARY_PATH", folder.path().to_str().unwrap())
            .env("NCCL_ALGO", algorithms.unwrap_or_default());
        let run = doctor.run();
        assert_eq!(codes(&run.object()).contains("TCPX-136"), expected, "{version}: {run}");
    }
}

#[test]
fn a_shell_can_source_the_profile() {
    let profile = Tcpx::new(&["env", "--profile", "a3-high"]).run();
    assert_eq!(profile.status, Some(0), "{profile}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &profile.stdout).unwrap();
    let shell = Command::new("sh")
        .args(["-euc", &format!(". \"$0\" && printf %s \"${PROFILE_VARIABLE}\"")])
        .arg(file.path())
        .env_clear()
        .output()
        .unwrap();
    assert!(shell.status.success(), "{shell:?}");
    let value = String::from_utf8(shell.stdout).unwrap();
    assert!(value.starts_with("eth1:8-21,112-125;eth2:"), "{value}");

    let unknown = Tcpx::new(&["env", "--profile", "a9"]).run();
    assert_eq!(unknown.status, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("a3-high"), "{unknown}");
}

#[test]
fn codes_words_and_log_lines_are_explained() {
    for (words, expected) in [
        (&["TCPX-101"][..], "TCPX-101 NCCL_DYNAMIC_CHUNK_SIZE is unset"),
        (&["101"], "TCPX-101 "),
        (&["rx", "no", "cmsg"], "TCPX-903 "),
        (&["h1:77 WARN unable to allocate requests 0x7f"], "TCPX-806 "),
    ] {
        let finished = Tcpx::new(&[&["explain"], words].concat()).run();
        assert_eq!(finished.status, Some(0), "{finished}");
        for part in [expected, "symptom: ", "cause: ", "cure: ", "source: "] {
            assert!(finished.stdout.contains(part), "{part}: {finished}");
        }
    }
    let variable = Tcpx::new(&["explain", "TCPX_CHANNELS", "--json"]).run();
    assert_eq!(variable.json()["variable"]["name"], "TCPX_CHANNELS");
    let line = Tcpx::new(&["explain", "--json", "[TCPX] net->devices rc=0 ndev=0"]).run().json();
    assert_eq!(line["diagnoses"][0]["code"], "TCPX-211");
    let list = Tcpx::new(&["explain", "--list"]).run();
    assert_eq!(list.status, Some(0), "{list}");
    assert!(list.stdout.contains("\nTCPX-903  fatal-for-plugin  \"rx no cmsg\"\n"), "{list}");
}

#[test]
fn an_unknown_text_ends_with_a_hint() {
    for (words, instead) in [
        (&["TCPX-999"][..], "tcpx explain --list"),
        (&["completely", "unheard"], "try fewer words"),
        (&["TCPX_CHANELS"], "did you mean TCPX_CHANNELS?"),
    ] {
        let finished = Tcpx::new(&[&["explain"], words].concat()).run();
        assert_eq!(finished.status, Some(1), "{finished}");
        assert!(finished.stdout.is_empty() && finished.stderr.starts_with("error: "), "{finished}");
        assert!(finished.stderr.contains(instead), "{finished}");
    }
    assert_eq!(Tcpx::new(&["explain"]).run().status, Some(2));
    assert_eq!(Tcpx::new(&["explain", "--list", "words"]).run().status, Some(2));
}

#[test]
fn devices_and_the_plugin_that_would_serve_are_listed() {
    let text = Tcpx::new(&["devices"]).run();
    assert_eq!(text.status, Some(0), "{text}");
    let devices = Tcpx::new(&["devices", "--json"]).run().json();
    let nics = devices["nics"].as_array().unwrap();
    assert!(nics.iter().any(|nic| nic["name"] == "lo"), "{devices}");
    for nic in nics {
        assert!(text.stdout.contains(nic["name"].as_str().unwrap()), "{text}");
    }
    for gpu in devices["gpus"].as_array().unwrap() {
        assert_eq!(gpu["distances"].as_array().unwrap().len(), nics.len(), "{gpu}");
    }
    let plugin = devices["transport"]["plugin"].as_str().unwrap();
    assert!(text.stdout.contains(&format!("\nplugin: {plugin} (auto: ")), "{text}");
    let named = Tcpx::new(&["devices", "--json"]).env("UCCL_TCPX_PLUGIN_PATH", "/x.so").run();
    assert_eq!(named.json()["transport"]["plugin"], "/x.so");
}

/// docs/troubleshooting.md shows codes and flags: those that exist.
#[test]
fn the_troubleshooting_page_names_what_there_is() {
    const PAGE: &str = include_str!("../../../../docs/troubleshooting.md");
    let named = PAGE.match_indices("TCPX-").map(|(at, _)| {
        let digits = PAGE[at + 5..].chars().take_while(char::is_ascii_digit).count();
        &PAGE[at..at + 5 + digits]
    });
    let codes: BTreeSet<&str> = named.filter(|code| code.len() > 5).collect();
    assert!(codes.len() > 5, "{codes:?}");
    for code in codes {
        let finished = Tcpx::new(&["explain", code]).run();
        assert_eq!(finished.status, Some(0), "{code}: {finished}");
    }
    for line in PAGE.lines().filter_map(|line| line.strip_prefix("    $ tcpx ")) {
        let command = line.split_whitespace().next().unwrap();
        let help = Tcpx::new(&[command, "--help"]).run();
        assert_eq!(help.status, Some(0), "{line}: {help}");
        for flag in line.split_whitespace().filter(|word| word.starts_with("--")) {
            assert!(
                help.stdout.contains(&format!("{flag} "))
                    || help.stdout.contains(&format!("{flag}\n")),
                "{line}: {help}"
            );
        }
    }
}
