//! Which languages a context can be of, by the names that clients use, and how the worker of each is started.

use std::fmt;

use ringfence_isolation::OsText;

const PYTHON: &str = concat!(
    include_str!("worker/frames.py"),
    include_str!("worker/plain.py"),
    include_str!("worker/shell.py"),
    include_str!("worker/serve.py")
);
const JAVASCRIPT: &str = include_str!("worker/javascript.js");
const BASH: &str = include_str!("worker/bash.sh");
/// node cannot copy a descriptor, and may not open the pipes of another user again: the shell lays copies before it becomes node.
const NODE: &str = r#"exec node -e "$0" "$1" 3<&0 4>&1 5>&2 </dev/null"#;

/// The language of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// Python 3; an IPython shell where the image has IPython.
    Python,
    /// JavaScript, by node.
    JavaScript,
    /// TypeScript, by a node that strips types (22.13 or newer); an older one answers each cell with an error.
    TypeScript,
    /// bash.
    Bash,
}

/// A name that is no language of a context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no code context speaks `{name}`; there are python, javascript (js), typescript (ts) and bash (sh)")]
pub struct UnknownLanguage {
    /// The name as it was asked for, at most 40 characters of it.
    pub name: String,
}

impl Language {
    /// Every language, in the order in which they are listed to people.
    pub const ALL: [Self; 4] = [Self::Python, Self::JavaScript, Self::TypeScript, Self::Bash];

    /// The language of a name or an alias, in any case; an error for any other.
    pub fn parse(name: &str) -> Result<Self, UnknownLanguage> {
        match name.to_ascii_lowercase().as_str() {
            "python" | "python3" | "py" => Ok(Self::Python),
            "javascript" | "js" => Ok(Self::JavaScript),
            "typescript" | "ts" => Ok(Self::TypeScript),
            "bash" | "sh" => Ok(Self::Bash),
            _ => Err(UnknownLanguage { name: name.chars().take(40).collect() }),
        }
    }

    /// The one name that answers give.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Bash => "bash",
        }
    }

    /// The argv of the worker. The program that it runs is an argument: no file is needed beside the interpreter.
    pub fn command(self) -> Vec<OsText> {
        let words: &[&str] = match self {
            Self::Python => &["python3", "-u", "-c", PYTHON],
            Self::JavaScript => &["sh", "-c", NODE, JAVASCRIPT, "javascript"],
            Self::TypeScript => &["sh", "-c", NODE, JAVASCRIPT, "typescript"],
            Self::Bash => &["bash", "--noprofile", "--norc", "-c", BASH],
        };
        words.iter().map(|word| OsText::from(*word)).collect()
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_one_language() {
        for (name, language) in
            [("python3", Language::Python), ("JS", Language::JavaScript), ("ts", Language::TypeScript), ("sh", Language::Bash)]
        {
            assert_eq!(Language::parse(name), Ok(language));
        }
        for language in Language::ALL {
            assert_eq!(Language::parse(language.name()), Ok(language));
        }
    }

    #[test]
    fn a_refusal_lists_what_there_is() {
        let refused = Language::parse("java").unwrap_err().to_string();
        assert_eq!(refused, "no code context speaks `java`; there are python, javascript (js), typescript (ts) and bash (sh)");
        assert!(Language::parse("r").is_err() && Language::parse("").is_err());
    }

    /// One argument of a program may have 128 KiB.
    #[test]
    fn each_program_fits_in_an_argument() {
        for language in Language::ALL {
            assert!(language.command().iter().all(|word| word.as_bytes().len() < 128 * 1024 && !word.as_bytes().contains(&0)));
        }
    }
}
