//! Variables with their values and states, for `tcpx env`.

use std::fmt;

use serde::Serialize;
use tcpx_diagnosis::Code;
use tcpx_diagnosis::variables::{
    Effect, Env, LibrarySetting, Reader, Remark, Variable, library_settings, value, variables,
};

use super::lint::{is_known, nearest_name, remarks};

/// State of one variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
#[non_exhaustive]
pub enum EnvState {
    /// Unset: the default holds.
    Unset,
    /// Set to a value without a finding.
    Set,
    /// Set, and known to do nothing.
    WithoutEffect,
    /// Set, and no such variable is known.
    Unknown {
        /// The known variable with the most similar name.
        nearest: Option<&'static str>,
    },
    /// There are findings about its value, or about its absence.
    Objected {
        /// Codes of the findings.
        codes: Vec<Code>,
    },
}

/// One row of `tcpx env`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EnvLine {
    /// Name of the variable.
    pub name: String,
    /// Value; `None` when unset or empty.
    pub value: Option<String>,
    /// State of the variable.
    #[serde(flatten)]
    pub state: EnvState,
    /// Row of the table of the plugin's variables.
    pub variable: Option<&'static Variable>,
    /// Row of the table of this library's own variables.
    pub setting: Option<&'static LibrarySetting>,
}

/// Returns every known variable of the plugin and of this library, set or not, then every unknown
/// one with a prefix of theirs. Unset variables that make the software plugin misbehave are left
/// out. The arguments are those of [`lint`](super::lint()).
#[must_use]
pub fn inspect(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<EnvLine> {
    let remarks = remarks(env, interfaces, cpus);
    let codes = |name: &str| {
        let about = |remark: &&Remark| remark.is_about(name);
        let mut codes: Vec<Code> = remarks.iter().filter(about).map(|it| it.finding.id).collect();
        codes.dedup();
        codes
    };
    let plugins = variables().iter().map(|variable| {
        let (value, codes) = (value(env, variable.name), codes(variable.name));
        let state = match variable.effect {
            Effect::None | Effect::Missing if value.is_some() => EnvState::WithoutEffect,
            _ => EnvState::of(value, codes),
        };
        line(variable.name, value, state, Some(variable), None)
    });
    let own = library_settings().iter().filter_map(|setting| {
        // Of two names, the one that is read.
        let name = setting.names().find(|name| value(env, name).is_some()).unwrap_or(setting.name);
        let value = value(env, name);
        let is_shown = value.is_some() || setting.reader != Reader::FaultScript;
        let state = EnvState::of(value, codes(name));
        is_shown.then(|| line(name, value, state, None, Some(setting)))
    });
    let unknown = env.iter().filter(|(name, value)| {
        !value.is_empty() && !is_known(name) && remarks.iter().any(|remark| remark.is_about(name))
    });
    let unknown = unknown.map(|(name, value)| {
        let nearest = nearest_name(name).map(|(_, nearest)| nearest);
        line(name, Some(value), EnvState::Unknown { nearest }, None, None)
    });
    plugins.chain(own).chain(unknown).collect()
}

/// Returns one row, with owned copies of name and value.
fn line(
    name: &str,
    value: Option<&str>,
    state: EnvState,
    variable: Option<&'static Variable>,
    setting: Option<&'static LibrarySetting>,
) -> EnvLine {
    let (name, value) = (name.to_owned(), value.map(str::to_owned));
    EnvLine { name, value, state, variable, setting }
}

impl EnvState {
    /// Returns the state of a known variable by its value and the codes of its findings.
    fn of(value: Option<&str>, codes: Vec<Code>) -> Self {
        match value {
            _ if !codes.is_empty() => Self::Objected { codes },
            Some(_) => Self::Set,
            None => Self::Unset,
        }
    }
}

impl fmt::Display for EnvLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, remark) = match &self.state {
            EnvState::Unset => ("unset", String::new()),
            EnvState::Set => ("set", String::new()),
            EnvState::WithoutEffect => ("idle", String::new()),
            EnvState::Unknown { nearest: Some(nearest) } => ("unknown", format!("like {nearest}")),
            EnvState::Unknown { nearest: None } => ("unknown", String::new()),
            EnvState::Objected { codes } => {
                let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
                ("WRONG", codes.join(" "))
            }
        };
        write!(f, "{state:<8} {}", self.name)?;
        let known = self.variable.map(|variable| (variable.default, variable.note));
        let known = known.or(self.setting.map(|setting| (setting.default, setting.note)));
        match (&self.value, known) {
            (Some(value), _) => write!(f, "={value}")?,
            (None, Some((default, _))) => write!(f, " (default {default})")?,
            (None, None) => {}
        }
        if !remark.is_empty() {
            write!(f, "  [{remark}]")?;
        }
        known.map_or(Ok(()), |(_, note)| write!(f, "  # {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Code {
        text.parse().expect("a code")
    }

    fn state_of(env: &[(&str, &str)], name: &str) -> EnvState {
        let env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let lines = inspect(&env, &["eth0"], 4);
        lines.into_iter().find(|line| line.name == name).expect("the variable has a row").state
    }

    #[test]
    fn each_state_is_recognised() {
        assert_eq!(state_of(&[], "NCCL_ALGO"), EnvState::Unset);
        assert_eq!(state_of(&[("NCCL_ALGO", "Ring")], "NCCL_ALGO"), EnvState::Set);
        assert_eq!(state_of(&[("NCCL_ALGO", "")], "NCCL_ALGO"), EnvState::Unset);
        assert_eq!(
            state_of(
                &[("NCCL_GPUDIRECTTCPX_PORT_BEGIN", "50000")],
                "NCCL_GPUDIRECTTCPX_PORT_BEGIN"
            ),
            EnvState::WithoutEffect
        );
        assert_eq!(
            state_of(
                &[("NCCL_GPUDIRECTTCPX_CTRL_DEVICE", "eth0")],
                "NCCL_GPUDIRECTTCPX_CTRL_DEVICE"
            ),
            EnvState::Unknown { nearest: Some("NCCL_GPUDIRECTTCPX_CTRL_DEV") }
        );
        let bindings = [
            ("NCCL_GPUDIRECTTCPX_RX_BINDINGS", "eth0:0-1"),
            ("NCCL_GPUDIRECTTCPX_TX_BINDINGS", "eth0:1-2"),
        ];
        let overlap = EnvState::Objected { codes: vec![code("TCPX-112")] };
        assert_eq!(state_of(&bindings, "NCCL_GPUDIRECTTCPX_RX_BINDINGS"), overlap);
        assert_eq!(state_of(&bindings, "NCCL_GPUDIRECTTCPX_TX_BINDINGS"), overlap);
        let misspelt = [("NCCL_GPUDIRECTTCPX_CTRL_DEVICE", "eth0")];
        assert_eq!(state_of(&misspelt, "NCCL_GPUDIRECTTCPX_CTRL_DEV"), EnvState::Unset);
        let objected = state_of(&[], "NCCL_DYNAMIC_CHUNK_SIZE");
        assert_eq!(objected, EnvState::Objected { codes: vec![code("TCPX-101")] });
    }

    #[test]
    fn a_row_is_formatted_as_text() {
        let env = [
            ("NCCL_DYNAMIC_CHUNK_SIZE", "512K"),
            ("NCCL_PROTO", "Simple"),
            ("NCCL_TCPX_NOTHING_LIKE_IT_AT_ALL", "1"),
        ];
        let env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let lines: Vec<String> = inspect(&env, &[], 0).iter().map(ToString::to_string).collect();
        for expected in [
            "WRONG    NCCL_DYNAMIC_CHUNK_SIZE=512K  [TCPX-102]  # bytes of a chunk; the same on both ends",
            "set      NCCL_PROTO=Simple  # protocols that NCCL may use; the plugin needs Simple",
            "unset    NCCL_USE_DMA_BUF (default 1)  # 0 makes CUDA registrations fail",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
        }
        let last = lines.last().expect("a row");
        assert!(last.starts_with("unknown  NCCL_TCPX_NOTHING_LIKE_IT_AT_ALL=1"), "{last}");
    }
}
