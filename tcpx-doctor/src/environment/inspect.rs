//! Each variable with its value and state, for `tcpx env`.

use serde::Serialize;

use super::variable::{Effect, Variable, find, variables};
use super::{Env, lint::nearest_name, remark::remarks, value};
use crate::code::Code;

/// How one variable stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
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
    /// Set or unset in a way that these findings object to.
    Objected {
        /// Their codes.
        codes: Vec<Code>,
    },
}

/// One row of `tcpx env`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// Every known variable, set or not, then every unknown one that only the plugin could mean. The arguments are those of
/// [`lint`](super::lint()).
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
            && find(name).is_none()
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let overlap = EnvState::Objected { codes: vec![Code::new(112)] };
        assert_eq!(state_of(&bindings, "NCCL_GPUDIRECTTCPX_RX_BINDINGS"), overlap);
        assert_eq!(state_of(&bindings, "NCCL_GPUDIRECTTCPX_TX_BINDINGS"), overlap);
        let misspelt = [("NCCL_GPUDIRECTTCPX_CTRL_DEVICE", "eth0")];
        assert_eq!(state_of(&misspelt, "NCCL_GPUDIRECTTCPX_CTRL_DEV"), EnvState::Unset);
        let objected = state_of(&[], "NCCL_DYNAMIC_CHUNK_SIZE");
        assert_eq!(objected, EnvState::Objected { codes: vec![Code::new(101)] });
    }
}
