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
            let (key, value) = (key.trim(), value.trim());
            if keys.iter().any(|k| key.eq_ignore_ascii_case(k)) && !value.ends_with('\\') {
                out.push_str(&format!("\t{key} = {}\n", without_user(value)));
            }
        }
    }
    out
}

/// The section of a header line, if it is a plain one that is kept.
fn kept_section(header: &str) -> Option<(&'static str, &'static [&'static str])> {
    let inner = header.strip_suffix(']')?;
    let name = inner.split([' ', '\t']).next()?;
    KEPT.iter().find(|(kept, _)| name.eq_ignore_ascii_case(kept)).copied()
}

/// `https://user:token@host/path` becomes `https://host/path`, and a query, which may hold a token, is cut.
fn without_user(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let (place, path) = rest.split_once('/').map_or((rest, None), |(place, path)| (place, Some(path)));
    let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let path = path.map_or(String::new(), |p| format!("/{}", p.split(['?', '#']).next().unwrap_or_default()));
    format!("{scheme}://{place}{path}")
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
