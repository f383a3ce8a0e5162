//! Whose settings count, in which order, and what is never shown.

use super::*;

/// An operator's machine with these files and variables.
fn read(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Upstreams {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut environment = BTreeMap::from([("HOME".to_owned(), "/home/me".to_owned())]);
    environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Upstreams::read(&Operator { environment: &environment, root: folder.path() })
}

fn url(upstreams: &Upstreams, ecosystem: Ecosystem) -> &str {
    upstreams.of(ecosystem).unwrap().url.as_str()
}

fn header(upstreams: &Upstreams, ecosystem: Ecosystem) -> Option<&str> {
    upstreams.of(ecosystem).unwrap().authorization.as_ref().map(|secret| secret.expose().as_str())
}

#[test]
fn no_setting_is_an_error_with_a_hint_and_never_a_default() {
    let none = read(&[], &[]);
    for (ecosystem, client) in [(Ecosystem::Python, "pip"), (Ecosystem::Node, "npm"), (Ecosystem::Rust, "cargo")] {
        let error = none.of(ecosystem).unwrap_err();
        assert_eq!(error.to_string(), format!("{client} names no index of {ecosystem} packages"));
        assert!(!error.hint().is_empty());
    }
    assert_eq!(none.of(Ecosystem::Python).unwrap_err().hint(), "run `pip config set global.index-url URL`");
}

#[test]
fn pip_prefers_its_variable_then_install_then_the_person() {
    let machine = ("etc/pip.conf", "[global]\nindex-url = https://machine.example/simple\ncert = /etc/own.pem\n");
    let person = ("home/me/.config/pip/pip.conf", "[global]\nindex_url: https://person.example/simple/ \n");
    let install = ("home/me/.pip/pip.conf", "[install]\nindex-url=https://install.example/simple\nextra-index-url=https://x.example\n");
    let python = |files: &[(&str, &str)], variables: &[(&str, &str)]| url(&read(files, variables), Ecosystem::Python).to_owned();
    assert_eq!(python(&[machine], &[]), "https://machine.example/simple/");
    assert_eq!(python(&[machine, person], &[]), "https://person.example/simple/");
    assert_eq!(python(&[machine, person, install], &[]), "https://install.example/simple/");
    assert_eq!(python(&[machine, install], &[("PIP_INDEX_URL", "https://v.example")]), "https://v.example/");
    let named = ("own.conf", "[global]\nindex-url = https://named.example/\n");
    assert_eq!(python(&[machine, person, named], &[("PIP_CONFIG_FILE", "/own.conf")]), "https://named.example/");
    assert!(read(&[machine], &[("PIP_CONFIG_FILE", "/dev/null")]).of(Ecosystem::Python).is_err());
    assert_eq!(read(&[machine, install], &[]).warnings.len(), 1);
    assert_eq!(read(&[machine], &[]).of(Ecosystem::Python).unwrap().certificates, Some("/etc/own.pem".into()));
}

#[test]
fn credentials_are_used_for_the_index_alone_and_never_shown() {
    let upstreams = read(&[], &[("PIP_INDEX_URL", "https://me:pass%40word@index.example/simple")]);
    let upstream = upstreams.of(Ecosystem::Python).unwrap();
    assert_eq!(header(&upstreams, Ecosystem::Python), Some("Basic bWU6cGFzc0B3b3Jk"));
    assert!(upstream.authorization_for(&"https://index.example/x".parse().unwrap()).is_some());
    assert!(upstream.authorization_for(&"https://files.example/x".parse().unwrap()).is_none());
    assert!(upstream.authorization_for(&"http://index.example/x".parse().unwrap()).is_none());
    let shown = format!("{upstreams:?}");
    assert!(!shown.contains("word") && !shown.contains("bWU6") && shown.contains("***"), "{shown}");
    let bad = read(&[], &[("PIP_INDEX_URL", "ftp://me:word@index.example")]).of(Ecosystem::Python).unwrap_err().to_string();
    assert_eq!(bad, "the index that pip names cannot be used: it is no https URL");
}

#[test]
fn npm_reads_its_files_and_the_credentials_of_its_registry() {
    let person = "; mine\nregistry = https://old.example/\nregistry=https://npm.example/team/npm/\n//npm.example/team/:_authToken=${TOKEN}\n\
                  @acme:registry=https://acme.example/\ncafile=/etc/own.pem\n";
    let upstreams = read(&[("home/me/.npmrc", person)], &[("TOKEN", "t0ken")]);
    assert_eq!(url(&upstreams, Ecosystem::Node), "https://npm.example/team/npm/");
    assert_eq!(header(&upstreams, Ecosystem::Node), Some("Bearer t0ken"));
    assert_eq!(upstreams.warnings.len(), 1);
    let machine = ("etc/npmrc", "registry=https://machine.example\n//machine.example/:_auth=cGFpcg==\n//other.example/:_authToken=x\n");
    let upstreams = read(&[machine], &[]);
    assert_eq!(
        (url(&upstreams, Ecosystem::Node), header(&upstreams, Ecosystem::Node)),
        ("https://machine.example/", Some("Basic cGFpcg=="))
    );
    let upstreams = read(&[machine], &[("NPM_CONFIG_REGISTRY", "https://v.example")]);
    assert_eq!((url(&upstreams, Ecosystem::Node), header(&upstreams, Ecosystem::Node)), ("https://v.example/", None));
    let prefix = read(&[("opt/etc/npmrc", "registry=https://p.example")], &[("npm_config_prefix", "/opt")]);
    assert_eq!(url(&prefix, Ecosystem::Node), "https://p.example/");
}

#[test]
fn cargo_follows_replacements_to_a_sparse_index() {
    let replaced = "[source.crates-io]\nreplace-with = \"a\"\n[source.a]\nreplace-with = \"b\"\n[source.b]\n\
                    registry = \"sparse+https://rust.example/index/\"\n[http]\ncainfo = \"/etc/own.pem\"\n";
    let home = "home/me/.cargo/config.toml";
    let upstreams = read(&[(home, replaced), ("home/me/.cargo/credentials.toml", "[registries.b]\ntoken = \"t\"\n")], &[]);
    assert_eq!((url(&upstreams, Ecosystem::Rust), header(&upstreams, Ecosystem::Rust)), ("https://rust.example/index/", Some("t")));
    let default = "[registry]\ndefault = \"own\"\n[registries.own]\nindex = \"sparse+https://own.example\"\n";
    assert_eq!(url(&read(&[("c/config.toml", default)], &[("CARGO_HOME", "/c")]), Ecosystem::Rust), "https://own.example/");
    let error = |text: &str| read(&[(home, text)], &[]).of(Ecosystem::Rust).unwrap_err().to_string();
    assert!(error(&replaced.replace("sparse+", "")).contains("not sparse"));
    assert!(error("[source.crates-io]\nreplace-with = \"a\"\n").contains("source `a` has no registry"));
    assert!(error("[source").contains("cannot be read"));
    assert!(error("[source.crates-io]\nreplace-with = \"a\"\n[source.a]\nreplace-with = \"a\"\n").contains("no registry"));
}
