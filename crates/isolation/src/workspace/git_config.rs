//! A repository's `config` without what runs programs or holds credentials: kept are only the keys listed here, and addresses lose their user part.
//! Format: git-config(1).

/// Sections and keys that describe a repository and do nothing.
const KEPT: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
        ],
    ),
    ("extensions", &["objectformat", "refstorage"]),
    ("remote", &["url", "fetch"]),
    ("branch", &["remote", "merge"]),
    ("user", &["name", "email"]),
];

/// Rewrites a config.
pub(super) fn harmless(text: &str) -> String {
    let mut out = String::new();
    let mut section: Option<(&str, &[&str])> = None;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = kept_section(header);
            if section.is_some() {
                out.push_str(line);
                out.push('\n');
            }
        } else if let (Some((_, keys)), Some((key, value))) = (section, line.split_once('=')) {
            let key = key.trim();
            if let (true, Some(value)) = (keys.iter().any(|k| key.eq_ignore_ascii_case(k)), read(value)) {
                out.push_str(&format!("\t{key} = {}\n", written(&without_user(&value))));
            }
        }
    }
    out
}

/// The section of a header line, if it is a plain one that is kept: `[name]` or `[name "part"]`, with nothing after it on the line.
fn kept_section(header: &str) -> Option<(&'static str, &'static [&'static str])> {
    let inner = header.strip_suffix(']')?;
    let (name, part) = inner.split_once([' ', '\t']).map_or((inner, None), |(name, part)| (name, Some(part.trim_start())));
    let is_plain =
        part.is_none_or(|part| part.strip_prefix('"').and_then(|p| p.strip_suffix('"')).is_some_and(|p| !p.contains(['"', '\\', ']'])));
    KEPT.iter().find(|(kept, _)| is_plain && name.eq_ignore_ascii_case(kept)).copied()
}

/// A value without its quotes and escapes, and without the comment behind it. None if it goes on in the next line or is no value to git.
fn read(text: &str) -> Option<String> {
    let (mut value, mut is_quoted, mut blanks) = (String::new(), false, String::new());
    let mut rest = text.trim().chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            ' ' | '\t' if !is_quoted => blanks.push(c),
            c => {
                value.push_str(&std::mem::take(&mut blanks));
                value.push(if c == '\\' { rest.next().filter(|c| matches!(c, '"' | '\\'))? } else { c });
            }
        }
    }
    (!is_quoted && !value.contains(char::is_control)).then_some(value)
}

/// A value as git reads it back.
fn written(value: &str) -> String {
    match value.contains(['#', ';', '"', '\\']) || value.trim() != value {
        true => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        false => value.to_owned(),
    }
}

/// `https://user:token@host/path` becomes `https://host/path`, and a query, which may hold a token, is cut.
fn without_user(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let (place, path) = rest.split_once('/').map_or((rest, None), |(place, path)| (place, Some(path)));
    let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let address = path.map_or(place.to_owned(), |path| format!("{place}/{path}"));
    format!("{scheme}://{}", address.split(['?', '#']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_programs_and_what_holds_tokens_is_gone() {
        let text = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch /x\n\thooksPath = .h\n\tsshCommand = evil\n\
                    [remote \"origin\"]\n\turl = https://me:TOKEN@example.com/a/b.git?key=TOKEN\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                    [filter \"z\"]\n\tclean = evil\n[http]\n\textraHeader = Authorization: TOKEN\n[include]\n\tpath = /etc/x\n\
                    [url \"https://x:TOKEN@h/\"]\n\tinsteadOf = y\n[credential]\n\thelper = store\n[alias]\n\tst = !evil\n";
        let harmless = harmless(text);
        assert_eq!(
            harmless,
            "[core]\n\trepositoryformatversion = 0\n[remote \"origin\"]\n\turl = https://example.com/a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        );
    }
}
