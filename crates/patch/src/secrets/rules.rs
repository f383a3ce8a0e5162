//! What secrets look like. Most name themselves by how they begin; two rules judge what stands around a value, and let placeholders pass.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

/// One way to know a secret.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) pattern: Regex,
    pub(super) sort: Sort,
}

/// What is the secret in what matches, and how much of it may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// It begins with its kind, which everybody may read.
    Named,
    /// The same, among words that begin so too: a key has letters and digits.
    NamedAndMixed,
    /// It is a block of text; there is nothing to show.
    Block,
    /// The first group is a value that a placeholder could be.
    Value,
}

/// Patterns are made of bytes, and none can take longer than the text is long.
#[rustfmt::skip]
const PATTERNS: &[(&str, Sort, &str)] = &[
    ("private key", Sort::Block, r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY( BLOCK)?-----|PuTTY-User-Key-File-[0-9]"),
    ("AWS access key", Sort::Named, r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("AWS secret key", Sort::Value, r#"(?i)aws_?secret_?(?:access_?)?key["']?\s{0,5}[:=]\s{0,5}["']?([a-z0-9/+]{40})\b"#),
    ("GitHub token", Sort::Named, r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("GitLab token", Sort::Named, r"\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_-]{20,}"),
    ("Slack token", Sort::Named, r"\bxox[a-z]-[A-Za-z0-9-]{10,}"),
    ("Slack hook", Sort::Block, r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"),
    ("Google key", Sort::Named, r"\b(?:AIza[0-9A-Za-z_-]{35}|GOCSPX-[0-9A-Za-z_-]{20,})"),
    ("Stripe key", Sort::Named, r"\b[sr]k_live_[0-9A-Za-z]{16,}"),
    ("OpenAI or Anthropic key", Sort::NamedAndMixed, r"\bsk-(?:ant-|proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}"),
    ("npm token", Sort::Named, r"\bnpm_[A-Za-z0-9]{30,}"),
    ("PyPI token", Sort::Named, r"\bpypi-[A-Za-z0-9_-]{32,}"),
    ("JSON web token", Sort::Named, r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("password in a URL", Sort::Value, r#"://[^\s/:@"'<>]{0,200}:([^\s/@"'<>]{3,200})@"#),
    ("secret as a literal", Sort::Value, concat!(
        r#"(?i)(?:password|passwd|secret|token|api[_-]?key)[a-z0-9_-]{0,40}["'\])]{0,2}(?:\s{0,5}:\s{0,3}[&'<>a-z \[\]]{1,30})?"#,
        r#"\s{0,5}(?:=>|:=|[=:(])\s{0,5}[bru]{0,2}["'`]([^"'`\s]{12,})["'`]"#,
    )),
];

/// All rules.
pub(super) static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| PATTERNS.iter().map(rule).collect());

#[expect(clippy::expect_used, reason = "the patterns are the ones above, and the tests use each of them")]
fn rule(&(name, sort, pattern): &(&'static str, Sort, &str)) -> Rule {
    Rule { name, sort, pattern: RegexBuilder::new(pattern).unicode(false).build().expect("a pattern above is well formed") }
}

/// True for values that nobody would take for a secret.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "example", "changeme", "change-me", "change_me", "placeholder", "your-", "your_", "insert", "redacted", "dummy", "xxxx", "****", "...", "env.",
        "environ", "getenv", "secrets.",
    ];
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    let is_one_character = value.chars().all(|c| value.starts_with(c));
    is_one_character || value.starts_with(['$', '<', '{', '%']) || WORDS.iter().any(|word| value.contains(word))
}

/// True if a key has what words do not have.
pub(super) fn is_mixed(key: &[u8]) -> bool {
    key.iter().any(u8::is_ascii_digit) && key.iter().any(u8::is_ascii_alphabetic)
}
