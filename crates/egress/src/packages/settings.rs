//! What pip, uv, npm and cargo must be told inside, so that they work with no settings of their own: by variables, and by files for those who
//! start them with an empty environment. Pure: who makes a sandbox sets the ones and lays down the others.

use ringfence_policy::{InstallScripts, Packages, SourceBuilds};

/// A file is checked whole before its first byte is handed on, so clients must be patient for as long as that may take.
const PATIENCE_SECONDS: u64 = 900;

/// Settings for the clients inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// Variables with their values.
    pub environment: Vec<(String, String)>,
    /// Absolute paths inside, with what the files hold.
    pub files: Vec<(String, String)>,
}

/// The settings that go with a grant; `base_url` is where the index listens inside, such as `http://127.0.0.1:3129`.
pub fn client_settings(packages: &Packages, base_url: &str) -> ClientSettings {
    let base = base_url.trim_end_matches('/');
    let (pip, npm) = (pip(packages, base), npm(packages, base));
    let mut environment: Vec<(String, String)> = Vec::new();
    environment.extend(pip.iter().map(|(key, value)| (format!("PIP_{}", key.to_uppercase().replace('-', "_")), value.clone())));
    environment.push(("UV_DEFAULT_INDEX".to_owned(), format!("{base}/python/simple/")));
    environment.push(("UV_HTTP_TIMEOUT".to_owned(), PATIENCE_SECONDS.to_string()));
    environment.push(("UV_PYTHON_DOWNLOADS".to_owned(), "never".to_owned()));
    environment.extend(npm.iter().map(|(key, value)| (format!("npm_config_{}", key.replace('-', "_")), value.clone())));
    environment.push(("CARGO_HTTP_TIMEOUT".to_owned(), PATIENCE_SECONDS.to_string()));
    let npmrc = lines(&npm, "=");
    let files = [
        ("/etc/pip.conf", format!("[global]\n{}", lines(&pip, " = "))),
        ("/etc/uv/uv.toml", uv_toml(base)),
        // npm looks below the folder that its node is installed in; Debian's looks in `/etc`.
        ("/etc/npmrc", npmrc.clone()),
        ("/usr/etc/npmrc", npmrc.clone()),
        ("/usr/local/etc/npmrc", npmrc),
        ("/.cargo/config.toml", cargo_toml(base)),
    ];
    ClientSettings { environment, files: files.map(|(path, text)| (path.to_owned(), text)).to_vec() }
}

fn lines(settings: &[(&str, String)], separator: &str) -> String {
    settings.iter().map(|(key, value)| format!("{key}{separator}{value}\n")).collect()
}

/// The image's own Python is read-only, so an install goes to the person's folder by itself; there is nothing of the system to break.
fn pip(packages: &Packages, base: &str) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("index-url", format!("{base}/python/simple/")),
        ("disable-pip-version-check", "1".to_owned()),
        ("break-system-packages", "1".to_owned()),
        ("timeout", PATIENCE_SECONDS.to_string()),
        ("retries", "1".to_owned()),
        ("no-input", "1".to_owned()),
    ];
    if packages.source_builds == SourceBuilds::None {
        settings.push(("only-binary", ":all:".to_owned()));
    }
    settings
}

/// A lock file names the places that its maker used; `replace-registry-host` makes npm ask here all the same.
fn npm(packages: &Packages, base: &str) -> Vec<(&'static str, String)> {
    vec![
        ("registry", format!("{base}/node/")),
        ("replace-registry-host", "always".to_owned()),
        ("audit", "false".to_owned()),
        ("fund", "false".to_owned()),
        ("update-notifier", "false".to_owned()),
        ("ignore-scripts", (packages.install_scripts == InstallScripts::None).to_string()),
        ("fetch-retries", "1".to_owned()),
        ("fetch-retry-mintimeout", "1000".to_owned()),
        ("fetch-timeout", (PATIENCE_SECONDS * 1000).to_string()),
    ]
}

fn uv_toml(base: &str) -> String {
    format!("python-downloads = \"never\"\n\n[[index]]\nurl = \"{base}/python/simple/\"\ndefault = true\n")
}

/// cargo reads the settings of every folder above the one it works in, and so those of `/`.
fn cargo_toml(base: &str) -> String {
    format!(
        "[source.crates-io]\nreplace-with = \"ringfence\"\n\n[source.ringfence]\nregistry = \"sparse+{base}/rust/\"\n\n\
         [http]\ntimeout = {PATIENCE_SECONDS}\n\n[net]\nretry = 1\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_source_builds_are_off_unless_they_are_granted() {
        let has = |packages: &Packages, name: &str, value: &str| {
            client_settings(packages, "http://127.0.0.1:3129/").environment.contains(&(name.to_owned(), value.to_owned()))
        };
        let (none, any) = (Packages::nothing(), Packages::unlimited());
        assert!(has(&none, "PIP_ONLY_BINARY", ":all:") && has(&none, "npm_config_ignore_scripts", "true"));
        assert!(!has(&any, "PIP_ONLY_BINARY", ":all:") && has(&any, "npm_config_ignore_scripts", "false"));
        assert!(has(&none, "PIP_INDEX_URL", "http://127.0.0.1:3129/python/simple/"));
        assert!(has(&none, "npm_config_registry", "http://127.0.0.1:3129/node/"));
    }

    #[test]
    fn the_files_say_the_same_as_the_variables() {
        let files = client_settings(&Packages::nothing(), "http://127.0.0.1:3129").files;
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            ["/etc/pip.conf", "/etc/uv/uv.toml", "/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc", "/.cargo/config.toml"]
        );
        assert!(files[0].1.contains("only-binary = :all:\n") && files[2].1.contains("ignore-scripts=true\n"));
        assert!(files[5].1.parse::<toml::Table>().is_ok() && files[1].1.parse::<toml::Table>().is_ok());
    }
}
