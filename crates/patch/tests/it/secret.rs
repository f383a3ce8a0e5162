//! Secrets in what a change adds. The values here are put together, so that no scanner takes this file for a leak.

use ringfence_patch::{Blob, Edit, Finding, secrets};

use crate::tree::plain;

fn of(old: Option<Blob>, new: &str, known: &[&[u8]]) -> Vec<Finding> {
    secrets(&[Edit { path: b"x".to_vec(), old, new: Some(plain(new)) }], known)
}

/// The rules that find something in one added line, and how it is masked.
fn found(line: &str) -> Vec<(&'static str, String)> {
    of(None, &format!("first\n{line}\n"), &[])
        .into_iter()
        .map(|finding| {
            assert_eq!(finding.line, 2, "{line}");
            (finding.rule, finding.masked)
        })
        .collect()
}

#[test]
fn secrets_are_known_by_how_they_begin() {
    let letters = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
    let cases = [
        (format!("-----BEGIN {}PRIVATE KEY-----", "RSA "), "private key", "… (31 bytes)"),
        (format!("-----BEGIN PGP {} BLOCK-----", "PRIVATE KEY"), "private key", "… (37 bytes)"),
        (format!("AKIA{}", "ABCDEFGHIJKLMNOP"), "AWS access key", "AKIA… (20 bytes)"),
        (format!("aws_secret_access_key = {letters}"), "AWS secret key", "… (40 bytes)"),
        (format!("ghp_{}", &letters[..36]), "GitHub token", "ghp_… (40 bytes)"),
        (format!("github_pat_{letters}"), "GitHub token", "gith… (51 bytes)"),
        (format!("glpat-{}", &letters[..20]), "GitLab token", "glpa… (26 bytes)"),
        (format!("xoxb-{}", &letters[..20]), "Slack token", "xoxb… (25 bytes)"),
        (format!("AIza{}", &letters[..35]), "Google key", "AIza… (39 bytes)"),
        (format!("sk_live_{}", &letters[..24]), "Stripe key", "sk_l… (32 bytes)"),
        (format!("sk-ant-api03-{letters}"), "OpenAI or Anthropic key", "sk-a… (53 bytes)"),
        (format!("sk-proj-{letters}"), "OpenAI or Anthropic key", "sk-p… (48 bytes)"),
        (format!("npm_{}", &letters[..36]), "npm token", "npm_… (40 bytes)"),
        (format!("pypi-AgEIcHlwaS5vcmc{letters}"), "PyPI token", "pypi… (60 bytes)"),
        (format!("eyJ{}.eyJ{}.abc", &letters[..20], &letters[..20]), "JSON web token", "eyJa… (51 bytes)"),
        (format!("postgres://user:{}@host/db", "hunter22"), "password in a URL", "… (8 bytes)"),
    ];
    for (line, rule, masked) in cases {
        assert_eq!(found(&line), [(rule, masked.to_owned())], "{line}");
        assert_eq!(found(&format!("let key = f({line});")), [(rule, masked.to_owned())], "{line}");
    }
}

#[test]
fn a_literal_that_is_called_a_secret_is_one() {
    let value = ["hunter2", "-hunter2"].concat();
    for line in [
        format!("password = \"{value}\""),
        format!("DB_PASSWD: '{value}'"),
        format!("\"api-key\": \"{value}\","),
        format!("const apiKey: string = `{value}`;"),
        format!("pub const TOKEN: &str = \"{value}\";"),
        format!("os.environ[\"SECRET_KEY\"] = \"{value}\""),
        format!("secret_token => b\"{value}\""),
    ] {
        assert_eq!(found(&line), [("secret as a literal", "… (15 bytes)".to_owned())], "{line}");
    }
    for line in [
        "password = \"short\"",
        "password = \"changeme-changeme\"",
        "token = \"${SECRET_TOKEN}\"",
        "api_key = \"your-api-key-here\"",
        "secret = \"************\"",
        "token = read_token_from_file()",
        "password: \"a sentence about passwords\"",
        "tokens.push(\"x\")",
        "postgres://user:${PASSWORD}@host",
        "https://example.com:8080/x@y",
        ".sk-some-long-class-name-of-a-style",
        "mask-AKIA",
    ] {
        assert_eq!(found(line), [], "{line}");
    }
}

#[test]
fn only_added_lines_count() {
    let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
    assert_eq!(of(Some(plain(format!("{key}\na\n"))), &format!("{key}\nb\n"), &[]), []);
    let found = of(Some(plain("a\nb\n")), &format!("a\n{key}\nb\n"), &[]);
    assert_eq!(found, [Finding { path: b"x".to_vec(), line: 2, rule: "AWS access key", masked: "AKIA… (20 bytes)".to_owned() }]);
    assert_eq!(secrets(&[Edit { path: b"x".to_vec(), old: Some(plain(&key)), new: None }], &[]), []);
}

#[test]
fn known_values_are_found_wherever_they_stand() {
    let finding = |line, length| Finding { path: b"x".to_vec(), line, rule: "known value", masked: format!("… ({length} bytes)") };
    assert_eq!(of(None, "a\nb my-own-value c\n", &[b"my-own-value", b""]), [finding(2, 12)]);
    assert_eq!(of(None, "\0\0\0\0my-own-value\0\0\0\0", &[b"my-own-value"]), [finding(1, 12)]);
    // Of a value that goes over two lines, one of which was there, the other is new.
    assert_eq!(of(Some(plain("x one\n")), "x one\ntwo\n", &[b"one\ntwo"]), [finding(1, 7)]);
    assert_eq!(of(Some(plain("x one\ntwo\n")), "x one\ntwo\nthree\n", &[b"one\ntwo"]), []);
    let named = secrets(&[Edit { path: b"dir/my-own-value".to_vec(), old: None, new: Some(plain("x")) }], &[b"my-own-value"]);
    assert_eq!(named, [Finding { path: b"dir/my-own-value".to_vec(), ..finding(0, 12) }]);
}
