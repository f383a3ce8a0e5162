//! Which files of a project or an input folder hold secrets by their name, and so are hidden from the view.
//!
//! The list is by name alone: it costs nothing, can be read in one minute, and a file that is hidden without need can be shown with `--reveal`.

/// What a name in a folder means for the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hiding {
    /// The file or folder is not shown.
    Hidden,
    /// It is a repository's `config`, shown only in a generated, harmless form.
    GitConfig,
    /// It is shown.
    Shown,
}

/// Names that hold credentials wherever they stand.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    ".netrc", "_netrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".htpasswd",
    ".dockercfg", ".s3cfg", ".boto", ".terraformrc", ".vault-token", "kubeconfig", ".aws", ".azure", ".gcloud", ".kube", ".ssh",
    ".gnupg", ".oci", "terraform.tfstate", "shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml",
    ".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".renviron", "credentials.tfrc.json", "application_default_credentials.json",
];

/// Names that hold credentials in the folder named before them.
#[rustfmt::skip]
const BELOW: &[(&str, &str)] = &[
    (".config", "gcloud"), (".config", "gh"), (".config", "hub"), (".config", "rclone"), (".config", "doctl"),
    (".docker", "config.json"), (".cargo", "credentials"), (".cargo", "credentials.toml"), (".m2", "settings.xml"),
    (".gem", "credentials"), (".composer", "auth.json"), (".git", "hooks"), (".git", "credentials"), (".git", "FETCH_HEAD"),
    (".bundle", "config"),
];

/// Endings of key files and key stores.
const ENDINGS: &[&str] = &[".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfvars", ".env"];

/// Decides on one entry of a folder; `parent` is the name of that folder, empty at the top.
pub fn is_secret(parent: &[u8], name: &[u8]) -> Hiding {
    let lower = name.to_ascii_lowercase();
    if parent == b".git" && (lower == b"config" || lower == b"config.worktree") {
        return Hiding::GitConfig;
    }
    let is_listed = NAMES.iter().any(|n| lower == n.as_bytes());
    let is_below = BELOW.iter().any(|(p, n)| parent.eq_ignore_ascii_case(p.as_bytes()) && lower.eq_ignore_ascii_case(n.as_bytes()));
    let is_ending = ENDINGS.iter().any(|e| lower.ends_with(e.as_bytes()));
    match is_listed || is_below || is_ending || lower.starts_with(b".env") || is_private_key(&lower) {
        true => Hiding::Hidden,
        false => Hiding::Shown,
    }
}

/// `id_rsa`, `id_ed25519`, `id_work`: names of private keys carry no ending; `id_rsa.pub` and `id_map.py` are not keys.
fn is_private_key(name: &[u8]) -> bool {
    let is_common = [b"id_rsa".as_slice(), b"id_dsa", b"id_ecdsa", b"id_ed25519"].iter().any(|common| name.starts_with(common));
    name.starts_with(b"id_") && (!name.contains(&b'.') || is_common && !name.ends_with(b".pub"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name() {
        let hidden = |parent: &str, name: &str| is_secret(parent.as_bytes(), name.as_bytes()) == Hiding::Hidden;
        for (parent, name) in [
            ("", ".env"),
            ("app", ".env.local"),
            ("", "server.pem"),
            ("", "id_ed25519"),
            ("", ".npmrc"),
            ("", ".PYPIRC"),
            ("", ".aws"),
            (".docker", "config.json"),
            (".git", "hooks"),
            (".config", "gcloud"),
        ] {
            assert!(hidden(parent, name), "{parent}/{name}");
        }
        for (parent, name) in [("", "id_map.py"), ("", "id_rsa.pub"), ("", "environment.yml"), ("src", "config.json"), ("", "keys.rs")] {
            assert!(!hidden(parent, name), "{parent}/{name}");
        }
        assert_eq!(is_secret(b".git", b"config"), Hiding::GitConfig);
    }
}
