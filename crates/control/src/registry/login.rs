//! Who runs this, by the password file: the person whom every home knows.

use std::fs;

use ringfence_policy::PersonName;

use super::error::RegistryError;
use super::person::Identity;

/// The login user as a person would be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) name: PersonName,
    pub(super) identity: Identity,
}

impl Login {
    /// The user of this process.
    pub(super) fn current() -> Result<Self, RegistryError> {
        let uid = rustix::process::getuid().as_raw();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
        });
        Self::called(&name.unwrap_or_else(|| format!("uid-{uid}")), uid)
    }

    /// A login name need not have the form of ours. One of which nothing is left is called by its number.
    pub(super) fn called(login: &str, uid: u32) -> Result<Self, RegistryError> {
        let name: PersonName = sanitised(login).parse().or_else(|_| format!("uid-{uid}").parse())?;
        let identity = login.parse().or_else(|_| name.as_str().parse())?;
        Ok(Self { name, identity })
    }
}

/// Lower case, and a hyphen for what no name can hold.
fn sanitised(login: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let text: String = login.chars().map(plain).collect();
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_login_has_a_name_and_an_identity() {
        for (login, name, identity) in [
            ("anna", "anna", "anna"),
            ("Anna.B", "anna.b", "Anna.B"),
            ("CORP\\anna", "corp-anna", "CORP\\anna"),
            ("änna", "nna", "nna"),
            ("日本", "uid-7", "uid-7"),
            ("_apt", "apt", "_apt"),
            ("uid-61234", "uid-61234", "uid-61234"),
        ] {
            let made = Login::called(login, 7).unwrap();
            assert_eq!((made.name.as_str(), made.identity.as_str()), (name, identity), "{login}");
        }
    }
}
