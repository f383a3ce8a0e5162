//! Settings of the form `key = value` under `[section]` lines, as pip and npm write them.

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    pub(super) section: &'a str,
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

/// The settings of a text in their order. What is no setting is passed over, as the clients do.
pub(super) fn settings<'a>(text: &'a str, separators: &'a [char]) -> Vec<Setting<'a>> {
    let (mut section, mut settings) = ("", Vec::new());
    for line in text.lines().filter(|line| !line.starts_with(char::is_whitespace)) {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
        } else if let Some((key, value)) = line.split_once(separators) {
            settings.push(Setting { section, key: key.trim(), value: value.trim().trim_matches(['"', '\'']) });
        }
    }
    settings
}
