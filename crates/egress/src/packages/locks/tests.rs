//! What each format pins, and what it is refused for.

use super::*;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn hashes(pins: &Pins, ecosystem: Ecosystem, name: &str, version: &str) -> Vec<String> {
    let name = PackageName::parse(ecosystem, name).unwrap();
    let version = PackageVersion::parse(ecosystem, version).unwrap();
    pins.hashes(ecosystem, &name, &version).into_iter().flatten().map(FileHash::to_string).collect()
}

fn refused(file: &str, text: &str) -> (Option<usize>, String) {
    let error = parse_lock(file, text).unwrap_err();
    assert!(!error.fix.is_empty());
    (error.line, error.cause)
}

#[test]
fn requirements_are_read_as_pip_does() {
    let text = format!(
        "# made by a tool\n--require-hashes\n\nRequests[socks]==2.31.0 ; python_version >= \"3.8\" \\\n    --hash=sha256:{A} \\\n    \
         --hash=sha256:{B}  # two files\n    # via nothing\nidna==3.7 --hash=sha256:{B}\n"
    );
    let pins = parse_lock("requirements.txt", &text).unwrap();
    assert_eq!(pins.len(), 2);
    assert_eq!(hashes(&pins, Ecosystem::Python, "requests", "2.31"), [format!("sha256:{A}"), format!("sha256:{B}")]);
    assert_eq!(hashes(&pins, Ecosystem::Python, "idna", "3.7"), [format!("sha256:{B}")]);
}

#[test]
fn a_requirement_that_is_not_pinned_is_named_with_its_line() {
    let refused = |text: &str| refused("requirements.txt", text);
    let good = format!("idna==3.7 --hash=sha256:{A}\n");
    assert_eq!(refused(&format!("{good}\nrequests==2.31.0\n")), (Some(3), "`requests` 2.31.0 has no hash".into()));
    assert_eq!(refused(&format!("requests>=2 --hash=sha256:{A}")).1, "`requests>=2` has no `==`");
    assert_eq!(refused(&format!("requests==2.* --hash=sha256:{A}")).1, "`requests==2.*` is more than one version");
    assert!(refused("x @ git+https://user:word@example.com/x").1.starts_with("`x` is not from the index"));
    assert!(refused("./x.whl").1.contains("not from the index"));
    assert!(refused("-e .").1.contains("option `-e`"));
    assert!(refused("--index-url https://user:word@example.com/simple").1.ends_with("names another source of packages"));
    assert!(refused("x==1 --hash=md5:00").1.contains("not a sha256"));
    assert!(refused("x==one --hash=sha256:00").0 == Some(1));
}

#[test]
fn uv_pins_wheels_and_source_distributions_and_leaves_out_the_project() {
    let text = format!(
        "version = 1\n\n[[package]]\nname = \"idna\"\nversion = \"3.7\"\nsource = {{ registry = \"https://example.com/simple\" }}\n\
         sdist = {{ url = \"u\", hash = \"sha256:{A}\", size = 1 }}\nwheels = [\n    {{ url = \"u\", hash = \"sha256:{B}\" }},\n]\n\n\
         [[package]]\nname = \"app\"\nversion = \"0\"\nsource = {{ virtual = \".\" }}\n"
    );
    let pins = parse_lock("a/uv.lock", &text).unwrap();
    assert_eq!((pins.len(), hashes(&pins, Ecosystem::Python, "idna", "3.7").len()), (1, 2));
    let (line, cause) = refused("uv.lock", &text.replace("registry = \"https://example.com/simple\"", "git = \"https://example.com/x\""));
    assert_eq!((line, cause.as_str()), (Some(4), "`idna` is from git and not from the index"));
    let (line, cause) = refused("uv.lock", &text.replace(&format!(", hash = \"sha256:{B}\""), ""));
    assert_eq!((line, cause.as_str()), (Some(4), "a file of `idna` has no hash"));
    assert_eq!(refused("uv.lock", "[[package]\n").0, Some(1));
}

#[test]
fn cargo_pins_what_has_a_source() {
    let text = format!(
        "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"serde_json\"\nversion = \"1.0.1\"\n\
         source = \"registry+https://example.com/index\"\nchecksum = \"{A}\"\n"
    );
    let pins = parse_lock("Cargo.lock", &text).unwrap();
    assert_eq!((pins.len(), hashes(&pins, Ecosystem::Rust, "serde-json", "1.0.1")), (1, vec![format!("sha256:{A}")]));
    let (line, cause) = refused("Cargo.lock", &text.replace("registry+", "git+"));
    assert_eq!((line, cause.as_str()), (Some(8), "`serde_json` is from git and not from the index"));
    assert_eq!(refused("Cargo.lock", &text.replace("checksum", "other")).1, "`serde-json` 1.0.1 has no hash");
}

#[test]
fn npm_pins_what_it_would_fetch() {
    let sha1 = "sha1-qqqqqqqqqqqqqqqqqqqqqqqqqqo=";
    let text = format!(
        r#"{{
  "lockfileVersion": 3,
  "packages": {{
    "": {{ "name": "app" }},
    "packages/part": {{ "version": "1.0.0" }},
    "node_modules/part": {{ "resolved": "packages/part", "link": true }},
    "node_modules/a/node_modules/@acme/left-pad": {{
      "version": "1.3.0",
      "resolved": "https://example.com/npm/@acme/left-pad/-/left-pad-1.3.0.tgz",
      "integrity": "{sha1}"
    }}
  }}
}}"#
    );
    let pins = parse_lock("package-lock.json", &text).unwrap();
    let wanted = vec![format!("sha1:{}", "a".repeat(40))];
    assert_eq!((pins.len(), hashes(&pins, Ecosystem::Node, "@acme/left-pad", "1.3.0")), (1, wanted));
    let refused = |text: &str| refused("package-lock.json", text);
    assert_eq!(refused(&text.replace("integrity", "other")), (Some(7), "`@acme/left-pad` 1.3.0 has no hash".into()));
    assert!(refused(&text.replace("https://example.com/npm", "git+ssh://example.com")).1.contains("not from the index"));
    assert!(refused(&text.replace("/-/left-pad-1.3.0", "/archive/main")).1.contains("not from the index"));
    assert!(refused(&text.replace("\"lockfileVersion\": 3", "\"lockfileVersion\": 1")).1.contains("of version 1"));
    assert_eq!(refused("{\n  oops").0, Some(2));
}

#[test]
fn what_is_no_lock_or_too_large_is_refused() {
    assert!(refused("poetry.lock", "").1.contains("no lock file"));
    assert!(refused("requirements.txt", &"#".repeat(MOST_BYTES + 1)).1.contains("32 MiB"));
}

proptest::proptest! {
    /// A lock file is a project's, and so a stranger's.
    #[test]
    fn any_text_is_read_or_refused(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24),
        file in proptest::sample::select(&["requirements.txt", "uv.lock", "package-lock.json", "Cargo.lock"][..]),
    ) {
        drop(parse_lock(file, &pieces.concat()));
    }
}

const PIECES: &[&str] = &[
    "idna",
    "==",
    "3.7",
    " ",
    "\n",
    "\\\n",
    "#",
    "--hash=",
    "sha256:",
    A,
    ";",
    "@",
    "[",
    "]",
    "[[package]]\n",
    "name = \"x\"\n",
    "version = \"1.0\"\n",
    "source = { registry = \"u\" }\n",
    "source = \"registry+u\"\n",
    "checksum = \"",
    "\"",
    "{",
    "}",
    "\"packages\":",
    "\"lockfileVersion\":3",
    ",",
    "\"node_modules/x\":{}",
    "ä",
    "\0",
    "-r",
    "\r",
];
