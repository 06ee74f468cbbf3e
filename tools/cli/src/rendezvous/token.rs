//! Shared token, by which the two ends recognise each other. It is proven, and never sent.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::role::Role;
use crate::failure::Failure;

/// Letters of generated tokens; no two look alike.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Letters of a generated token, of five bits each.
const LENGTH: usize = 20;
/// Shortest token that is accepted: an eavesdropper can try out short ones offline.
const SHORTEST: usize = 12;
const CONTEXT: &[u8] = b"tcpx rendezvous 8";

/// Nonce: one end sends it, and the other end's proof has to cover it.
pub(super) type Nonce = [u8; 16];

/// Token as the user gives it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum TokenChoice {
    /// The server makes one and shows it.
    Auto,
    /// A file has it.
    File(Box<Path>),
    Given(Token),
}

/// A shared secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(Box<str>);

/// Reads `auto`, `@FILE` or a token.
pub(super) fn token_choice(text: &str) -> Result<TokenChoice, String> {
    match text.strip_prefix('@') {
        _ if text == "auto" => Ok(TokenChoice::Auto),
        Some("") => Err("the file is missing: @FILE".into()),
        Some(file) => Ok(TokenChoice::File(Path::new(file).into())),
        None => Token::new(text).map(TokenChoice::Given),
    }
}

impl TokenChoice {
    /// Returns the token itself. Only a server makes one.
    pub(super) fn token(&self, role: Role) -> Result<Token, Failure> {
        match self {
            Self::Given(token) => Ok(token.clone()),
            Self::Auto if role == Role::Server => Token::random(),
            Self::Auto => Err(Failure::Usage(
                "--token auto is for the server, which shows the token; give it to the client: \
                 --token TOKEN"
                    .into(),
            )),
            Self::File(path) => {
                let unusable = |reason: String| {
                    Failure::Usage(format!("--token @{}: {reason}", path.display()))
                };
                let text = std::fs::read_to_string(path).map_err(|it| unusable(it.to_string()))?;
                Token::new(text.trim()).map_err(unusable)
            }
        }
    }
}

impl Token {
    fn new(text: &str) -> Result<Self, String> {
        match text.len() {
            SHORTEST..=256 => Ok(Self(text.into())),
            count => Err(format!("a token has {SHORTEST} to 256 bytes, this one has {count}")),
        }
    }

    fn random() -> Result<Self, Failure> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)
            .map_err(|error| Failure::io("choosing a token")(error.into()))?;
        Ok(Self(bytes.map(|byte| char::from(LETTERS[usize::from(byte % 32)])).iter().collect()))
    }

    /// Returns the token as the user has to type it.
    pub(super) fn shown(&self) -> &str {
        &self.0
    }

    /// Returns the proof that only `prover` can make, and only in the conversation with these two
    /// nonces.
    pub(super) fn proof(&self, prover: Role, client: &Nonce, server: &Nonce) -> [u8; 32] {
        self.mac(prover, client, server).finalize().into_bytes().into()
    }

    /// Returns whether the proof is right, in the same time wherever a wrong one differs.
    pub(super) fn is_proven(
        &self,
        proof: &[u8; 32],
        prover: Role,
        client: &Nonce,
        server: &Nonce,
    ) -> bool {
        self.mac(prover, client, server).verify_slice(proof).is_ok()
    }

    fn mac(&self, prover: Role, client: &Nonce, server: &Nonce) -> Hmac<Sha256> {
        // A key of the hash's block size: the token's digest, and zeros.
        let mut key = [0; 64];
        key[..32].copy_from_slice(&Sha256::digest(self.0.as_bytes()));
        let mut mac = Hmac::<Sha256>::new(&key.into());
        for part in [CONTEXT, prover.name().as_bytes(), client, server] {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(_)")
    }
}

impl fmt::Debug for TokenChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenChoice(_)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_prover_and_its_conversation_only() {
        let (token, other) = (Token::random().unwrap(), Token::random().unwrap());
        let (client, server) = ([1; 16], [2; 16]);
        let proof = token.proof(Role::Client, &client, &server);
        assert!(token.is_proven(&proof, Role::Client, &client, &server));
        assert!(!token.is_proven(&proof, Role::Server, &client, &server), "reflected");
        assert!(!token.is_proven(&proof, Role::Client, &client, &[3; 16]), "replayed");
        assert!(!other.is_proven(&proof, Role::Client, &client, &server));
    }

    #[test]
    fn tokens_are_long_and_never_shown_by_accident() {
        assert_eq!(token_choice("auto").unwrap(), TokenChoice::Auto);
        assert!(token_choice("short").unwrap_err().contains("12 to 256"));
        assert!(token_choice("@").is_err());
        let Ok(TokenChoice::Given(token)) = token_choice("correct-horse-battery") else {
            panic!("a token");
        };
        assert!(!format!("{token:?}").contains("horse"));
        assert!(!format!("{:?}", TokenChoice::Given(token)).contains("horse"));
        let random = Token::random().unwrap();
        assert!(random.shown().len() == LENGTH && random != Token::random().unwrap());
        let client = TokenChoice::Auto.token(Role::Client).unwrap_err().to_string();
        assert!(client.contains("--token TOKEN"), "{client}");
    }

    #[test]
    fn a_token_is_read_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "correct-horse-battery\n").unwrap();
        let choice = token_choice(&format!("@{}", file.display())).unwrap();
        assert_eq!(choice.token(Role::Client).unwrap().shown(), "correct-horse-battery");
        std::fs::remove_file(&file).unwrap();
        let error = choice.token(Role::Server).unwrap_err().to_string();
        assert!(error.starts_with("--token @") && error.contains("No such file"), "{error}");
    }
}
