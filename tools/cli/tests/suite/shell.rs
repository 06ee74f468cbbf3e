//! Tests of what shells and `man` are given.

use std::process::Command;

use crate::tcpx::Tcpx;

/// The commands that the help names.
fn commands() -> Vec<String> {
    let help = Tcpx::new(&["--help"]).run().stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = listed.take_while(|line| !line.is_empty());
    let words = lines.filter(|line| line.starts_with("  ") && !line.starts_with("    "));
    words.filter_map(|line| line.split_whitespace().next().map(ToOwned::to_owned)).collect()
}

/// What bash offers when tab is pressed behind the last of these words.
fn offered_by_bash(words: &[&str]) -> Vec<String> {
    let script = Tcpx::new(&["completions", "bash"]).run();
    assert_eq!(script.status, Some(0), "{script}");
    let last = words.len() - 1;
    let asked = format!(
        "{}\nCOMP_WORDS=({}); COMP_CWORD={last}; _tcpx tcpx '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
        script.stdout,
        words.join(" "),
        words[last],
        words[last - 1]
    );
    let bash = Command::new("bash").args(["--norc", "-c", &asked]).output().unwrap();
    assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr));
    String::from_utf8(bash.stdout).unwrap().split_whitespace().map(ToOwned::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let commands = commands();
    assert!(commands.len() >= 9 && commands.contains(&"perf".to_owned()), "{commands:?}");
    assert_eq!(offered_by_bash(&["tcpx", "pe"]), ["perf"]);
    assert_eq!(offered_by_bash(&["tcpx", "perf", "--chan"]), ["--channels"]);
    assert_eq!(offered_by_bash(&["tcpx", "doctor", "--profile", "a"]), ["a3-high"]);
    let offered = offered_by_bash(&["tcpx", "''"]);
    for command in &commands {
        assert!(offered.contains(command), "{command}: {offered:?}");
    }
    assert!(!offered.iter().any(|word| word.contains("open-plugin")), "{offered:?}");
}

#[test]
fn every_shell_gets_a_script_of_its_own() {
    for (shell, words) in [
        ("bash", "complete -F _tcpx"),
        ("zsh", "#compdef tcpx"),
        ("fish", "complete -c tcpx"),
        ("elvish", "edit:completion:arg-completer[tcpx]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = Tcpx::new(&["completions", shell]).run();
        assert_eq!(script.status, Some(0), "{script}");
        assert!(script.stdout.contains(words) && !script.stdout.contains("open-plugin"), "{shell}");
    }
    let unknown = Tcpx::new(&["completions", "rc"]).run();
    assert_eq!(unknown.status, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("'rc'") && unknown.stderr.contains("bash"), "{unknown}");
}

#[test]
fn the_manual_has_a_page_for_each_command_with_its_flags() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let written = Tcpx::new(&["manual", pages.to_str().unwrap()]).run();
    assert_eq!(written.status, Some(0), "{written}");
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("tcpx.1").contains(".TH tcpx 1"));
    for command in commands() {
        assert!(page("tcpx.1").contains(&format!("tcpx\\-{command}")), "{command}");
        assert!(page(&format!("tcpx-{command}.1")).starts_with(".ie"), "{command}");
    }
    assert!(page("tcpx-doctor.1").contains("\\-\\-min\\-severity"));
    let expected = commands().len() + 1;
    assert_eq!(pages.read_dir().unwrap().count(), expected, "no page of what is hidden");

    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let nowhere = Tcpx::new(&["manual", file.to_str().unwrap()]).run();
    assert_eq!(nowhere.status, Some(1), "{nowhere}");
    assert!(nowhere.stderr.contains("writing the manual to "), "{nowhere}");
}
