//! A credential on its way to the one host it is for. Inside there is only its placeholder.

use std::fmt;

use ringfence_policy::CredentialBinding;

/// A value that may stand in a header and in no record.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialValue(String);

/// Why a value was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Too short to be told from other text in a reply.
    #[error("a credential has at least {} characters: a shorter one cannot be told from other text in a reply", CredentialValue::LEAST)]
    Short,
    /// Too long for a header.
    #[error("a credential has at most {} characters", CredentialValue::MOST)]
    Long,
    /// Not text that a header can hold.
    #[error("a credential holds visible ASCII characters only, and no line break")]
    Text,
}

impl CredentialValue {
    /// Characters at least.
    pub const LEAST: usize = 8;
    /// Characters at most.
    pub const MOST: usize = 8192;

    /// Checks a value.
    pub fn new(text: String) -> Result<Self, ValueError> {
        match text.len() {
            ..Self::LEAST => Err(ValueError::Short),
            length if length > Self::MOST => Err(ValueError::Long),
            _ if !text.bytes().all(|b| b.is_ascii_graphic()) => Err(ValueError::Text),
            _ => Ok(Self(text)),
        }
    }

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CredentialValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A credential of one run.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Where it goes.
    pub binding: CredentialBinding,
    /// What stands for it inside.
    pub placeholder: String,
    /// What is put in.
    pub value: CredentialValue,
}
