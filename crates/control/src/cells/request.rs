//! What is asked of a worker, and how it is written on its standard input: fields that each end in a zero byte, since bash can read nothing
//! plainer. token, folder (empty: where it is), number of variables, `NAME=value` for each, code.

use std::collections::BTreeMap;

use super::frame::Token;

/// How long a request may be as bytes on the worker's standard input: bash reads them one by one.
pub const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// A cell to be executed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CellRequest {
    /// The code.
    pub code: String,
    /// Variables of the environment, set before the cell and put back after it.
    pub env_vars: BTreeMap<String, String>,
    /// The folder to go to first; the context stays there. Absent: where the last cell left it.
    pub cwd: Option<String>,
}

/// Why a request cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A zero byte, which ends a field.
    #[error("the {field} holds a zero byte, which no code context takes; leave it out")]
    ZeroByte {
        /// Which part of the request.
        field: &'static str,
    },
    /// A name that is no variable's in every language.
    #[error(
        "`{name}` cannot be the name of an environment variable of a cell; names are letters, digits and `_`, and do not begin with a digit"
    )]
    Variable {
        /// The name, at most 40 characters of it.
        name: String,
    },
    /// Too much.
    #[error(
        "the cell with its variables has {bytes} bytes, and a code context takes {MAX_REQUEST_BYTES}; put data into a file and read it there"
    )]
    TooLong {
        /// How long it would be.
        bytes: usize,
    },
}

/// The request as bytes for the worker's standard input.
pub(super) fn encode(request: &CellRequest, token: &Token) -> Result<Vec<u8>, RequestError> {
    let mut fields = vec![token.as_str().to_owned(), request.cwd.clone().unwrap_or_default(), request.env_vars.len().to_string()];
    for (name, value) in &request.env_vars {
        if !is_variable(name) {
            return Err(RequestError::Variable { name: name.chars().take(40).collect() });
        }
        refuse_zero("value of a variable", value)?;
        fields.push(format!("{name}={value}"));
    }
    refuse_zero("folder", &fields[1])?;
    refuse_zero("code", &request.code)?;
    fields.push(request.code.clone());
    let bytes: Vec<u8> = fields.iter().flat_map(|field| field.bytes().chain([0])).collect();
    if bytes.len() > MAX_REQUEST_BYTES { Err(RequestError::TooLong { bytes: bytes.len() }) } else { Ok(bytes) }
}

fn refuse_zero(field: &'static str, text: &str) -> Result<(), RequestError> {
    if text.contains('\0') { Err(RequestError::ZeroByte { field }) } else { Ok(()) }
}

fn is_variable(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_word) && name.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::of([0xab; 16])
    }

    #[test]
    fn fields_end_in_zero_bytes() {
        let env_vars = BTreeMap::from([("A".to_owned(), "1=2".to_owned())]);
        let request = CellRequest { code: "x\ny".to_owned(), env_vars, cwd: Some("/work".to_owned()) };
        let written = String::from_utf8(encode(&request, &token()).unwrap()).unwrap();
        assert_eq!(written, format!("{}\0/work\x001\0A=1=2\0x\ny\0", "ab".repeat(16)));
    }

    #[test]
    fn what_would_be_read_otherwise_is_refused() {
        let with = |code: &str, name: &str, value: &str, cwd: &str| {
            let env_vars = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            encode(&CellRequest { code: code.to_owned(), env_vars, cwd: Some(cwd.to_owned()) }, &token())
        };
        assert!(with("x", "A", "1", "/").is_ok());
        assert_eq!(with("x\0", "A", "1", "/"), Err(RequestError::ZeroByte { field: "code" }));
        assert_eq!(with("x", "A", "1\0", "/"), Err(RequestError::ZeroByte { field: "value of a variable" }));
        assert_eq!(with("x", "A", "1", "/\0"), Err(RequestError::ZeroByte { field: "folder" }));
        for name in ["", "1A", "A-B", "A=B", "É", "a b"] {
            assert_eq!(with("x", name, "1", "/"), Err(RequestError::Variable { name: name.to_owned() }));
        }
        assert!(matches!(with(&"x".repeat(MAX_REQUEST_BYTES), "A", "1", "/"), Err(RequestError::TooLong { .. })));
    }
}
