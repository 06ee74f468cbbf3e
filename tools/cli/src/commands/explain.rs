//! `tcpx explain`: meaning and cure of a diagnosis code, a variable or a line of a log.

use std::process::ExitCode;

use serde::Serialize;
use tcpx_diagnosis::table::chapters;
use tcpx_diagnosis::variables::{LibrarySetting, Variable, find_library_setting, find_variable};
use tcpx_diagnosis::{Code, Diagnosis, explain, search};
use tcpx_doctor::environment::nearest_name;

use crate::failure::Failure;
use crate::output::{print, print_json};

/// Most edits between a misspelt name and a known one.
const FEW_EDITS: usize = 4;

/// Explain a diagnosis code, a variable, or words or a line of a log.
///
/// Shows symptom, cause, cure and source of each diagnosis that fits, best first: for `TCPX-101`
/// that one; for a line of a log those that know it, whatever its numbers are; else those that have
/// all the words, in any order, or most of the rare ones. A variable is explained too, this
/// library's own or the plugin's. Exit status: 0 when something was found, 2 wrong flags, else 1.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ExplainArgs {
    /// A code such as TCPX-101, a variable such as TCPX_CHANNELS, or words such as "rx no cmsg"
    #[arg(required_unless_present = "list", value_name = "ID|VARIABLE|WORDS")]
    words: Vec<String>,

    /// List every diagnosis in a line: code, severity and title
    #[arg(long, conflicts_with = "words")]
    list: bool,

    /// Print one JSON object instead of a text
    #[arg(long)]
    json: bool,
}

/// Explanation of a text: the variable that it names, and the diagnoses that fit.
#[derive(Debug, Default, Serialize)]
struct Explanation {
    variable: Option<VariableInfo>,
    diagnoses: Vec<&'static Diagnosis>,
}

/// Row of the table of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum VariableInfo {
    Plugins(&'static Variable),
    Own(&'static LibrarySetting),
}

/// Prints everything that fits.
pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let found = match args.list {
        true => Explanation { variable: None, diagnoses: everything().collect() },
        false => find(&args.words.join(" "))?,
    };
    match (args.json, args.list) {
        (true, _) => print_json(&found)?,
        (false, true) => print(&render_list())?,
        (false, false) => print(&render(&found))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn everything() -> impl Iterator<Item = &'static Diagnosis> {
    chapters().flat_map(|(_, chapter)| chapter.iter().copied())
}

fn find(text: &str) -> Result<Explanation, Failure> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::Usage("nothing to explain: give a code, a variable or words".into()));
    }
    if let Ok(code) = text.parse::<Code>() {
        let unknown =
            || Failure::Unknown(format!("there is no diagnosis {code}; see tcpx explain --list"));
        let diagnosis = explain(code).ok_or_else(unknown)?;
        return Ok(Explanation { variable: None, diagnoses: vec![diagnosis] });
    }
    let found = Explanation { variable: variable_in(text), diagnoses: search(text) };
    if found.variable.is_none() && found.diagnoses.is_empty() {
        return Err(Failure::Unknown(format!("no diagnosis matches \"{text}\"; {}", hint(text))));
    }
    Ok(found)
}

/// Returns the first word that is the name of a variable, alone or as in `NAME=value`.
fn variable_in(text: &str) -> Option<VariableInfo> {
    let separates = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    text.split(separates).find_map(|word| {
        let name = word.to_ascii_uppercase();
        let own = || find_library_setting(&name).map(VariableInfo::Own);
        find_variable(&name).map(VariableInfo::Plugins).or_else(own)
    })
}

/// Returns a hint for another try.
fn hint(text: &str) -> String {
    match nearest_name(&text.to_ascii_uppercase()).filter(|(edits, _)| *edits <= FEW_EDITS) {
        Some((_, name)) => format!("did you mean {name}?"),
        None => "try fewer words, or look through tcpx explain --list".into(),
    }
}

fn render(found: &Explanation) -> String {
    let variable = found.variable.iter().map(|meaning| match meaning {
        VariableInfo::Plugins(variable) => variable.to_string(),
        VariableInfo::Own(setting) => setting.to_string(),
    });
    let diagnoses = found.diagnoses.iter().map(ToString::to_string);
    variable.chain(diagnoses).collect::<Vec<_>>().join("\n\n")
}

fn render_list() -> String {
    let chapters = chapters().map(|(title, chapter)| {
        let lines =
            chapter.iter().map(|it| format!("{}  {:<16}  {}", it.code, it.severity, it.title));
        std::iter::once(title.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
    });
    chapters.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<u16> {
        find(text).unwrap().diagnoses.iter().map(|diagnosis| diagnosis.code.number()).collect()
    }

    fn variable(text: &str) -> &'static str {
        match find(text).unwrap().variable.unwrap() {
            VariableInfo::Plugins(variable) => variable.name,
            VariableInfo::Own(setting) => setting.name,
        }
    }

    #[test]
    fn a_code_finds_itself_and_words_find_their_diagnoses() {
        assert_eq!(codes("TCPX-903"), [903]);
        assert_eq!(codes(" tcpx-101 "), [101]);
        assert_eq!(codes("RX NO CMSG")[0], 903);
        let line = "host7:4711 [3] NET/GPUDirectTCPX : unable to allocate requests (comm 0x7f12)";
        assert_eq!(codes(line), [806, 809]);
    }

    #[test]
    fn a_variable_is_explained_with_its_diagnoses() {
        assert_eq!(variable("NCCL_CROSS_NIC"), "NCCL_CROSS_NIC");
        assert_eq!(variable("tcpx_channels"), "TCPX_CHANNELS");
        assert_eq!(variable("export UCCL_TCPX_UNPACK_IMPL=d2d"), "TCPX_UNPACK");
        assert_eq!(variable("NCCL_DYNAMIC_CHUNK_SIZE=512K"), "NCCL_DYNAMIC_CHUNK_SIZE");
        let found = find("NCCL_DYNAMIC_CHUNK_SIZE").unwrap();
        assert_eq!(found.diagnoses[0].code.number(), 101);
        let text = render(&found);
        assert!(text.starts_with("NCCL_DYNAMIC_CHUNK_SIZE: bytes of a chunk"), "{text}");
        assert!(text.contains("\n\nTCPX-101 "), "{text}");
    }

    #[test]
    fn an_unknown_text_is_an_error_with_a_hint() {
        for (text, instead) in [
            ("TCPX-999", "--list"),
            ("completely unheard of words", "--list"),
            ("TCPX_CHANELS", "did you mean TCPX_CHANNELS?"),
            ("nccl_dynamic_chunksize", "did you mean NCCL_DYNAMIC_CHUNK_SIZE?"),
        ] {
            let error = find(text).unwrap_err();
            assert!(matches!(&error, Failure::Unknown(text) if text.contains(instead)), "{error}");
        }
        assert!(matches!(find("  "), Err(Failure::Usage(_))));
    }

    #[test]
    fn the_list_has_every_diagnosis_in_a_line() {
        let list = render_list();
        for diagnosis in everything() {
            let line = list.lines().find(|line| line.starts_with(&format!("{} ", diagnosis.code)));
            assert!(line.is_some_and(|line| line.ends_with(diagnosis.title)), "{}", diagnosis.code);
        }
    }
}
