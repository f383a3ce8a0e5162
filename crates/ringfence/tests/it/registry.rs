//! Images from a real registry on loopback, open and behind a password. Without the registry's program the test says so and is skipped.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::image::busybox;
use crate::support::{Place, eventually};

/// `me:secret`, as the registry keeps passwords.
const PASSWORDS: &str = "me:$2b$04$CcE2fYKhASNaDqxBsqj4qOONrXM6t0MnoEWOaTeUj7GQdO7swdw3W\n";
const AUTHORIZATION: &str = "Basic bWU6c2VjcmV0";

/// A registry that goes with this value.
struct Registry {
    address: String,
    folder: TempDir,
    process: Child,
}

impl Registry {
    fn start(has_password: bool) -> Option<Self> {
        let unpacked = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/registry/usr/bin/docker-registry");
        let program = [unpacked, "/usr/bin/docker-registry".into()].into_iter().find(|path| path.exists())?;
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let kept = folder.path().display();
        fs::write(folder.path().join("passwords"), PASSWORDS).unwrap();
        let auth = if has_password { format!("auth:\n  htpasswd:\n    realm: x\n    path: {kept}/passwords\n") } else { String::new() };
        let settings = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {kept}/kept\nhttp:\n  addr: {address}\n{auth}"
        );
        fs::write(folder.path().join("settings.yml"), settings).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").arg(folder.path().join("settings.yml")).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        eventually("a registry that answers", || TcpStream::connect(&address).is_ok());
        Some(Self { address, folder, process })
    }

    /// Sends a request, and answers with its status and the header `Location`.
    fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: {AUTHORIZATION}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_default();
        let path = location.find("/v2/").map_or("", |at| &location[at..]);
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), path.to_owned())
    }

    /// Keeps a blob, and answers with its descriptor.
    fn blob(&self, kind: &str, bytes: &[u8]) -> Value {
        let (_, upload) = self.send("POST", "/v2/team/tools/blobs/uploads/", kind, b"");
        let (status, _) = self.send("PUT", &format!("{upload}&digest={}", digest(bytes)), "application/octet-stream", bytes);
        assert_eq!(status, 201);
        json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() })
    }

    /// Keeps an image of one layer under a tag, and answers with the digest of its manifest.
    fn push(&self, layer: &[u8], tag: &str) -> String {
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({ "architecture": machine, "os": "linux", "rootfs": { "type": "layers", "diff_ids": [digest(layer)] } });
        let config = self.blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes());
        let layer = self.blob("application/vnd.oci.image.layer.v1.tar", layer);
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] }).to_string();
        assert_eq!(self.send("PUT", &format!("/v2/team/tools/manifests/{tag}"), kind, manifest.as_bytes()).0, 201);
        digest(manifest.as_bytes())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[test]
fn an_image_is_fetched_from_a_registry_by_tag_and_by_digest() {
    let Some(registry) = Registry::start(false) else {
        return println!("skipped 1: there is no docker-registry; `make test` fetches it");
    };
    for place in Place::each() {
        let layer = fs::read(busybox(&place, "pulled")).unwrap();
        let pushed = registry.push(&layer, "1");
        let fetched = place.ringfence(&["image", "import", &format!("oci://{}/team/tools:1", registry.address)]);
        assert_eq!((fetched.stdout.trim(), fetched.status), (pushed.as_str(), 0), "{fetched:?}");
        assert!(place.ringfence(&["image", "ls"]).stdout.contains("team/tools:1"));
        let again = format!("oci://{}/team/tools@{pushed}", registry.address);
        assert_eq!(place.ringfence(&["image", "import", &again, "--name", "pinned"]).stdout.trim(), pushed);
        let missing = place.ringfence(&["image", "import", &format!("oci://{}/team/none:1", registry.address)]);
        assert!(missing.status == 125 && missing.stderr.contains("404") && missing.stderr.contains("hint: "), "{missing:?}");
    }
}

#[test]
fn the_operators_own_credential_is_used_where_the_registry_asks_for_one() {
    let Some(registry) = Registry::start(true) else {
        return println!("skipped 1: there is no docker-registry; `make test` fetches it");
    };
    for place in Place::each() {
        registry.push(&fs::read(busybox(&place, "private")).unwrap(), "1");
        let from = format!("oci://{}/team/tools:1", registry.address);
        let import = || place.ringfence(&["image", "import", &from]);
        let refused = import();
        assert!(refused.status == 125 && refused.stderr.contains("401") && refused.stderr.contains("log in"), "{refused:?}");
        let auths = json!({ "auths": { registry.address.clone(): { "auth": "bWU6c2VjcmV0" } } });
        place.write("nobody-home/.docker/config.json", auths.to_string());
        assert_eq!(import().status, 0);
        place.write("nobody-home/.docker/config.json", auths.to_string().replace("bWU6c2VjcmV0", "bWU6d3Jvbmc="));
        let wrong = import();
        assert!(wrong.status == 125 && !wrong.stderr.contains("bWU6"), "{wrong:?}");
    }
}

/// Whoever keeps the registry's files can change them: what comes is checked all the same.
#[test]
fn a_layer_that_is_not_what_its_digest_says_is_refused() {
    let Some(registry) = Registry::start(false) else {
        return println!("skipped 1: there is no docker-registry; `make test` fetches it");
    };
    let place = Place::new(crate::support::users()[0]);
    let mut layer = fs::read(busybox(&place, "changed")).unwrap();
    registry.push(&layer, "1");
    let hex = digest(&layer).replace("sha256:", "");
    let kept = registry.folder.path().join(format!("kept/docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]));
    layer[0] ^= 1;
    fs::write(kept, &layer).unwrap();
    let refused = place.ringfence(&["image", "import", &format!("oci://{}/team/tools:1", registry.address)]);
    assert!(refused.status == 125 && refused.stderr.contains("its bytes have the digest"), "{refused:?}");
    assert_eq!(fs::read_dir(place.home().join("images")).unwrap().count(), 0);
}
