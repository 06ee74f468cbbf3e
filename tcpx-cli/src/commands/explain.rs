//! `tcpx explain`: what a diagnosis code or a line of a log means, and what to do about it.

use std::process::ExitCode;

use tcpx_diagnosis::{Code, Diagnosis, explain, search, table};

use crate::failure::Failure;
use crate::output::print;

/// Explain a diagnosis code, or words of a message or log line.
///
/// Shows symptom, cause, cure and source of each diagnosis that fits: for `TCPX-101` that one, for
/// words those whose text contains them, or whose quoted message the words contain. Exit status: 0
/// when something was found, else 1.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ExplainArgs {
    /// A code such as TCPX-101, or words such as "rx no cmsg"
    #[arg(required = true, value_name = "ID|WORDS")]
    words: Vec<String>,
}

/// Prints every diagnosis that fits.
pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let found: Vec<String> = find(&args.words.join(" "))?.iter().map(ToString::to_string).collect();
    print(&found.join("\n\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn find(text: &str) -> Result<Vec<&'static Diagnosis>, Failure> {
    let text = text.trim();
    if let Ok(code) = text.parse::<Code>() {
        let unknown = || Failure::Unknown(format!("there is no diagnosis {code}"));
        return explain(code).map(|diagnosis| vec![diagnosis]).ok_or_else(unknown);
    }
    if text.is_empty() {
        return Err(Failure::Usage("nothing to explain: give a code or words".into()));
    }
    let mut found: Vec<_> = search(text).collect();
    if found.is_empty() {
        found = quoted_in(text);
    }
    if found.is_empty() {
        return Err(Failure::Unknown(format!(
            "no diagnosis speaks of \"{text}\"; try fewer words, without numbers and names"
        )));
    }
    Ok(found)
}

/// The diagnoses whose title or symptom quotes a message that is part of `line`.
fn quoted_in(line: &str) -> Vec<&'static Diagnosis> {
    let line = line.to_lowercase();
    let is_part = |text: &str| quotations(text).any(|quoted| line.contains(&quoted.to_lowercase()));
    table::all().filter(|it| is_part(it.symptom) || is_part(it.title)).collect()
}

/// What stands between pairs of double quotes.
fn quotations(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2).filter(|quoted| !quoted.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<u16> {
        find(text).unwrap().iter().map(|diagnosis| diagnosis.code.number()).collect()
    }

    #[test]
    fn a_code_finds_itself_and_words_find_their_diagnoses() {
        assert_eq!(codes("TCPX-903"), [903]);
        assert_eq!(codes(" tcpx-101 "), [101]);
        assert!(codes("RX NO CMSG").contains(&903));
    }

    #[test]
    fn a_whole_log_line_is_recognised_by_the_message_in_it() {
        let line = "host7:4711 [3] NET/GPUDirectTCPX : unable to allocate requests (comm 0x7f12)";
        assert_eq!(codes(line), [806, 809]);
    }

    #[test]
    fn the_unknown_is_an_error() {
        for text in ["TCPX-999", "completely unheard of words"] {
            let error = find(text).unwrap_err();
            assert!(matches!(error, Failure::Unknown(_)), "{error}");
        }
        assert!(matches!(find("  "), Err(Failure::Usage(_))));
    }

    #[test]
    fn only_closed_quotations_count() {
        assert_eq!(
            quotations(r#"say "one" and "two", not "" "#).collect::<Vec<_>>(),
            ["one", "two"]
        );
        assert_eq!(quotations("none").count(), 0);
    }
}
