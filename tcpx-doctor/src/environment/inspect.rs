//! Each variable with its value and state, for `tcpx env`.

use std::fmt;

use serde::Serialize;
use tcpx_diagnosis::Code;
use tcpx_diagnosis::variables::{Effect, Env, Variable, find_variable, value, variables};

use super::lint::{nearest_name, remarks};

/// How one variable stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
#[non_exhaustive]
pub enum EnvState {
    /// Unset: the default acts.
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
    /// These findings object to its value, or to its absence.
    Objected {
        /// Their codes.
        codes: Vec<Code>,
    },
}

/// One row of `tcpx env`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EnvLine {
    /// The variable's name.
    pub name: String,
    /// Its value; `None` when unset or empty.
    pub value: Option<String>,
    /// How it stands.
    #[serde(flatten)]
    pub state: EnvState,
    /// The table's row; `None` for unknown names.
    pub variable: Option<&'static Variable>,
}

/// Every known variable, set or not, then every unknown one that only the plugin could mean. The
/// arguments are those of [`lint`](super::lint()).
#[must_use]
pub fn inspect(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<EnvLine> {
    let remarks = remarks(env, interfaces, cpus);
    let known = variables().iter().map(|variable| {
        let value = value(env, variable.name).map(str::to_owned);
        let mut codes: Vec<Code> = remarks
            .iter()
            .filter(|remark| remark.is_about(variable.name))
            .map(|remark| remark.finding.id)
            .collect();
        codes.dedup();
        let state = match (&value, variable.effect) {
            (Some(_), Effect::None | Effect::Missing) => EnvState::WithoutEffect,
            _ if !codes.is_empty() => EnvState::Objected { codes },
            (Some(_), _) => EnvState::Set,
            (None, _) => EnvState::Unset,
        };
        EnvLine { name: variable.name.to_owned(), value, state, variable: Some(variable) }
    });
    let unknown = env.iter().filter(|(name, value)| {
        !value.is_empty()
            && find_variable(name).is_none()
            && remarks.iter().any(|remark| remark.is_about(name))
    });
    let unknown = unknown.map(|(name, value)| EnvLine {
        name: name.clone(),
        value: Some(value.clone()),
        state: EnvState::Unknown { nearest: nearest_name(name).map(|(_, nearest)| nearest) },
        variable: None,
    });
    known.chain(unknown).collect()
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
        match (&self.value, self.variable) {
            (Some(value), _) => write!(f, "={value}")?,
            (None, Some(variable)) => write!(f, " (default {})", variable.default)?,
            (None, None) => {}
        }
        if !remark.is_empty() {
            write!(f, "  [{remark}]")?;
        }
        self.variable.map_or(Ok(()), |variable| write!(f, "  # {}", variable.note))
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
    fn each_state_is_told() {
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
    fn a_row_is_shown_for_people() {
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
