//! What an upstream has: packages put on it one by one, with their pages written anew each time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::parcel;
use super::upstream::{Reply, Upstream};

/// When everything was published that is not about time.
pub(super) const LONG_AGO: &str = "2020-01-01T00:00:00Z";

const PYTHON_JSON: &str = "application/vnd.pypi.simple.v1+json";

#[derive(Default)]
struct Pages {
    python: BTreeMap<String, Vec<Value>>,
    node: BTreeMap<String, Value>,
    rust: BTreeMap<String, Vec<Value>>,
}

/// An upstream with packages.
#[derive(Clone)]
pub(super) struct Shelf {
    pub(super) upstream: Upstream,
    pages: Arc<Mutex<Pages>>,
}

impl Shelf {
    pub(super) fn new() -> Self {
        let upstream = Upstream::start();
        let config = json!({ "dl": upstream.url("/crates"), "api": null }).to_string();
        upstream.say("/rust/config.json", Reply::Page("application/json", config.into_bytes()));
        Self { upstream, pages: Arc::default() }
    }

    /// Puts a file of a Python package here, with facts for its page.
    pub(super) fn python_file(&self, name: &str, file: &str, bytes: &[u8], facts: Value) {
        let mut line = json!({
            "filename": file,
            "url": format!("../../files/{file}"),
            "hashes": { "sha256": parcel::sha256(bytes) },
            "upload-time": LONG_AGO,
        });
        facts.as_object().unwrap().iter().for_each(|(key, value)| line[key] = value.clone());
        self.upstream.say(&format!("/files/{file}"), Reply::Page("application/octet-stream", bytes.to_vec()));
        let mut pages = self.pages.lock().unwrap();
        let lines = pages.python.entry(name.to_owned()).or_default();
        lines.push(line);
        let page = json!({ "meta": { "api-version": "1.0" }, "name": name, "files": lines });
        self.upstream.say(&format!("/simple/{name}/"), Reply::Page(PYTHON_JSON, page.to_string().into_bytes()));
    }

    /// Puts an ordinary wheel here.
    pub(super) fn wheel(&self, name: &str, version: &str, needs: &[&str]) -> Vec<u8> {
        self.wheel_of(name, version, needs, LONG_AGO)
    }

    /// Puts a wheel of this age here.
    pub(super) fn wheel_of(&self, name: &str, version: &str, needs: &[&str], published_at: &str) -> Vec<u8> {
        let bytes = parcel::wheel(name, version, needs);
        let file = format!("{name}-{version}-py3-none-any.whl");
        self.python_file(name, &file, &bytes, json!({ "upload-time": published_at }));
        bytes
    }

    /// Puts a Node package here: its manifest is what its page says, and `bytes` its file.
    pub(super) fn node(&self, manifest: &Value, bytes: &[u8], published_at: &str) {
        let (name, version) = (manifest["name"].as_str().unwrap(), manifest["version"].as_str().unwrap());
        let file = format!("{}-{version}.tgz", name.rsplit('/').next().unwrap());
        let path = format!("/tarballs/{file}");
        self.upstream.say(&path, Reply::Page("application/octet-stream", bytes.to_vec()));
        let mut told = manifest.clone();
        told["dist"] = json!({ "tarball": self.upstream.url(&path), "integrity": parcel::sha512_integrity(bytes) });
        let mut pages = self.pages.lock().unwrap();
        let page =
            pages.node.entry(name.to_owned()).or_insert_with(|| json!({ "name": name, "versions": {}, "time": {}, "dist-tags": {} }));
        page["versions"][version] = told;
        page["time"][version] = json!(published_at);
        page["dist-tags"]["latest"] = json!(version);
        let path = format!("/npm/{}", name.replace('/', "%2F"));
        self.upstream.say(&path, Reply::Page("application/json", page.to_string().into_bytes()));
    }

    /// Puts an ordinary Node package here.
    pub(super) fn plain_node(&self, name: &str, version: &str, needs: Value) -> Vec<u8> {
        let manifest = json!({ "name": name, "version": version, "dependencies": needs });
        let bytes = parcel::node_package(&manifest);
        self.node(&manifest, &bytes, LONG_AGO);
        bytes
    }

    /// Puts a crate here. `published_at` is in the index only if it is given.
    pub(super) fn krate(&self, name: &str, version: &str, needs: &[(&str, &str)], published_at: Option<&str>) -> Vec<u8> {
        let bytes = parcel::krate(name, version, needs);
        let need = |(name, version): &(&str, &str)| json!({ "name": name, "req": version, "features": [], "optional": false, "default_features": true, "target": null, "kind": "normal" });
        let mut line = json!({
            "name": name, "vers": version, "cksum": parcel::sha256(&bytes), "features": {}, "yanked": false,
            "deps": needs.iter().map(need).collect::<Vec<_>>(),
        });
        if let Some(at) = published_at {
            line["pubtime"] = json!(at);
        }
        self.upstream.say(&format!("/crates/{name}/{version}/download"), Reply::Page("application/gzip", bytes.clone()));
        let mut pages = self.pages.lock().unwrap();
        let lines = pages.rust.entry(name.to_owned()).or_default();
        lines.push(line);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = format!("/rust/{}/{}/{name}", &name[..2], &name[2..4]);
        self.upstream.say(&path, Reply::Page("text/plain", text.into_bytes()));
        bytes
    }
}
