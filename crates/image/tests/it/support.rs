//! Archives and layouts, made by hand so that they can say what no honest program would write.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ringfence_image::{Caps, Facts, ImageError, Images};
use ringfence_policy::ImageTag;
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::Header;
use tempfile::TempDir;

/// A tar that is being made.
#[derive(Clone, Default)]
pub(crate) struct Tar(Vec<u8>);

impl Tar {
    /// An entry of any kind; the name is written as it is.
    pub(crate) fn entry(mut self, kind: u8, name: &str, link: &str, content: &[u8]) -> Self {
        let header = header(kind, name, link, content.len() as u64);
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(b'0', name, "", content.as_bytes())
    }

    pub(crate) fn folder(self, name: &str) -> Self {
        self.entry(b'5', name, "", b"")
    }

    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.entry(b'2', name, target, b"")
    }

    pub(crate) fn hard_link(self, name: &str, target: &str) -> Self {
        self.entry(b'1', name, target, b"")
    }

    /// An extended header about the entry that follows.
    pub(crate) fn said(self, key: &str, value: &str) -> Self {
        let rest = format!(" {key}={value}\n");
        let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits).unwrap();
        self.entry(b'x', "pax", "", format!("{}{rest}", rest.len() + digits).as_bytes())
    }

    /// The bytes without an end mark.
    pub(crate) fn cut(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn bytes(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

/// A header of GNU tar with these fields as they are. Files may be executed, by way of every bit that there is.
pub(crate) fn header(kind: u8, name: &str, link: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(0o7777);
    header.set_mtime(1_000_000_000);
    header.set_uid(1234);
    header.set_gid(1234);
    header.set_size(size);
    header.set_cksum();
    header
}

/// A home for images, and a folder for sources.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) images: Images,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let images = Images::of(&folder.path().join("images"));
        Self { images, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn import(&self, source: &Path, name: &str) -> Result<Facts, ImageError> {
        let tag: ImageTag = name.parse().unwrap();
        self.images.import(source, Some(&tag), Caps::default(), &mut |_, _| {})
    }

    /// Imports one tar, and answers with its root.
    pub(crate) fn unpack(&self, tar: Tar) -> Result<PathBuf, ImageError> {
        self.import(&self.write("root.tar", tar.bytes()), "it").map(|facts| self.root(&facts))
    }

    pub(crate) fn root(&self, facts: &Facts) -> PathBuf {
        self.path(&format!("images/sha256-{}/root", facts.digest.hex()))
    }

    /// Imports layers, plain, as an OCI layout.
    pub(crate) fn layers(&self, layers: Vec<Tar>) -> Result<PathBuf, ImageError> {
        let layers: Vec<Vec<u8>> = layers.into_iter().map(Tar::bytes).collect();
        let layout = Layout::new(self.path("layout"), &layers.iter().map(|l| (l.clone(), l.clone())).collect::<Vec<_>>());
        self.import(&layout.folder, "it").map(|facts| self.root(&facts))
    }

    /// Nothing of a refused image is left, not even a draft.
    pub(crate) fn assert_nothing_kept(&self) {
        let left: Vec<_> = fs::read_dir(self.path("images")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// This machine in the words of images.
pub(crate) fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// An OCI layout with one image.
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) manifest: String,
}

impl Layout {
    /// Layers as they are kept, each with what it is once decompressed.
    pub(crate) fn new(folder: PathBuf, layers: &[(Vec<u8>, Vec<u8>)]) -> Self {
        fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        let diff_ids: Vec<String> = layers.iter().map(|(_, content)| digest(content)).collect();
        let config = json!({
            "architecture": architecture(), "os": "linux", "created": "2024-05-06T07:08:09Z",
            "config": { "Env": ["PATH=/opt/bin:/bin", "TOOL_HOME=/opt", "not a variable", "9=x"] },
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let mut layout = Self { folder, manifest: String::new() };
        let config = layout.blob(config.to_string().as_bytes());
        let layers: Vec<_> = layers.iter().map(|(kept, _)| layout.blob(kept)).collect();
        let manifest = layout.blob(json!({ "schemaVersion": 2, "config": config, "layers": layers }).to_string().as_bytes());
        layout.manifest = manifest["digest"].as_str().unwrap().to_owned();
        layout.index(&json!([manifest]));
        layout
    }

    /// Keeps a blob; answers with its descriptor.
    pub(crate) fn blob(&self, bytes: &[u8]) -> serde_json::Value {
        fs::write(self.path(&digest(bytes)), bytes).unwrap();
        json!({ "digest": digest(bytes), "size": bytes.len() })
    }

    pub(crate) fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(digest.replace("sha256:", "blobs/sha256/"))
    }

    pub(crate) fn index(&self, manifests: &serde_json::Value) {
        fs::write(self.folder.join("index.json"), json!({ "schemaVersion": 2, "manifests": manifests }).to_string()).unwrap();
    }

    pub(crate) fn config(&self) -> PathBuf {
        let manifest: serde_json::Value = serde_json::from_slice(&fs::read(self.path(&self.manifest)).unwrap()).unwrap();
        self.path(manifest["config"]["digest"].as_str().unwrap())
    }

    /// The whole layout as one tar.
    pub(crate) fn tar(&self) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_dir_all(".", &self.folder).unwrap();
        builder.into_inner().unwrap()
    }
}
