//! tools/scripts/run_tcpx_test.sh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tcpx_diagnosis::variables::{profile_a3_high, render_profile};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/scripts/run_tcpx_test.sh")
}

/// A directory with a `tcpx` that shows how it was called.
fn stand_in() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let command = directory.path().join("tcpx");
    fs::write(&command, "#!/bin/sh\necho \"called: $*\"\nenv\n").expect("a script");
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).expect("permissions");
    directory
}

fn run(arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let directory = stand_in();
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    Command::new("sh")
        .arg(script())
        .args(arguments)
        .env_clear()
        .env("PATH", path)
        .envs(settings.iter().copied())
        .output()
        .expect("sh runs")
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_profile_in_the_script_is_the_profile() {
    const BEGINNING: &str = "# >>> A3 High profile\n";
    const END: &str = "# <<< A3 High profile\n";
    let text = fs::read_to_string(script()).expect("the script");
    let (before, rest) = text.split_once(BEGINNING).expect("the beginning's mark");
    let (block, after) = rest.split_once(END).expect("the end's mark");
    let rendered = render_profile(profile_a3_high());
    if std::env::var_os("TCPX_UPDATE").is_some() {
        let updated = format!("{before}{BEGINNING}{rendered}{END}{after}");
        // Other tests run the script meanwhile.
        if updated != text {
            fs::write(script(), updated).expect("the script can be written");
        }
        return;
    }
    assert!(
        block == rendered,
        "the profile is stale: run TCPX_UPDATE=1 cargo test -p tcpx-diagnosis"
    );
}

#[test]
fn each_program_is_called() {
    for (arguments, expected) in [
        (&["transfer", "server"][..], "transfer server"),
        (&["transfer", "10.64.1.7"], "transfer client 10.64.1.7"),
        (&["connection", "server"], "connect server"),
        (&["connection", "10.64.1.7"], "connect client 10.64.1.7"),
        (&["perf", "server", "--size", "64M"], "perf server --size 64M"),
        (&["perf", "10.64.1.7", "--gpu", "1"], "perf client 10.64.1.7 --gpu 1"),
    ] {
        let output = run(arguments, &[]);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let shown = shown(&output);
        assert!(
            shown.lines().any(|line| line == format!("called: {expected}")),
            "{arguments:?}: {shown}"
        );
    }
}

#[test]
fn the_whole_profile_is_set() {
    let output = run(&["transfer", "server"], &[("TCPX_PLUGIN", "/my/plugin.so")]);
    let shown = shown(&output);
    for setting in profile_a3_high() {
        let line = format!("{}={}", setting.name, setting.value);
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
}

#[test]
fn the_software_plugin_finds_its_nics_itself() {
    let output = run(&["transfer", "server"], &[("TCPX_PLUGIN", "soft")]);
    let shown = shown(&output);
    assert!(!shown.contains("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME="), "{shown}");
    assert!(shown.contains("NCCL_DYNAMIC_CHUNK_SIZE=524288\n"), "{shown}");
}

#[test]
fn without_a_hardware_plugin_the_software_one_is_used() {
    let missing = [("TCPX_HARDWARE_PLUGIN", "/no/such/plugin.so")];
    assert!(shown(&run(&["transfer", "server"], &missing)).contains("TCPX_PLUGIN=soft\n"));

    let present = tempfile::NamedTempFile::new().expect("a file");
    let path = present.path().display().to_string();
    let output = run(&["transfer", "server"], &[("TCPX_HARDWARE_PLUGIN", &path)]);
    assert!(shown(&output).contains(&format!("TCPX_PLUGIN={path}\n")));

    let chosen = [("TCPX_PLUGIN", "/my/plugin.so")];
    assert!(shown(&run(&["transfer", "server"], &chosen)).contains("TCPX_PLUGIN=/my/plugin.so\n"));
}

#[test]
fn help_explains_and_nonsense_is_refused() {
    for flag in ["--help", "-h"] {
        let output = run(&[flag], &[]);
        assert!(output.status.success());
        let shown = shown(&output);
        for word in ["transfer", "connection", "perf", "server", "TCPX_PLUGIN"] {
            assert!(shown.contains(word), "{word}");
        }
    }
    for arguments in
        [&[][..], &["transfer"], &["dance", "server"], &["transfer", "--fast"], &["transfer", ""]]
    {
        let output = run(arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("usage"), "{arguments:?}");
    }
}

#[test]
fn a_missing_program_is_reported() {
    let copy = tempfile::tempdir().expect("a directory");
    let elsewhere = copy.path().join("tools/scripts/run_tcpx_test.sh");
    fs::create_dir_all(elsewhere.parent().expect("a parent")).expect("a directory");
    fs::copy(script(), &elsewhere).expect("a copy");
    let start = |directory: &Path| {
        Command::new("sh")
            .arg(&elsewhere)
            .args(["transfer", "server"])
            .current_dir(directory)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .output()
            .expect("sh runs")
    };
    let output = start(copy.path());
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cargo build --release"));

    let built = copy.path().join("target/release");
    fs::create_dir_all(&built).expect("a directory");
    let stand_in = stand_in();
    fs::copy(stand_in.path().join("tcpx"), built.join("tcpx")).expect("a copy");
    assert!(shown(&start(Path::new("/"))).contains("called: transfer server"));
}
