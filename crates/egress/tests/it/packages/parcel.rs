//! Packages made on the spot: wheels, tarballs and crates, good and bad.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::Digest as _;
use tar::{EntryType, Header};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub(super) fn sha256(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn sha512_integrity(bytes: &[u8]) -> String {
    use base64::Engine as _;
    format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(sha2::Sha512::digest(bytes)))
}

/// A zip file of these entries, as they are.
pub(super) fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A zip file of one symbolic link.
pub(super) fn zip_link(name: &str, target: &str) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.add_symlink(name, target, SimpleFileOptions::default()).unwrap();
    writer.finish().unwrap().into_inner()
}

/// The text that a wheel says of itself.
pub(super) fn metadata(name: &str, version: &str, needs: &[&str]) -> String {
    let needs: String = needs.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
    format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
}

pub(super) fn wheel(name: &str, version: &str, needs: &[&str]) -> Vec<u8> {
    let info = format!("{name}-{version}.dist-info");
    let module = format!("{name}/__init__.py");
    let record = format!("{module},,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");
    zip(&[
        (&module, format!("version = \"{version}\"\n").as_bytes()),
        (&format!("{info}/METADATA"), metadata(name, version, needs).as_bytes()),
        (&format!("{info}/WHEEL"), b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (&format!("{info}/RECORD"), record.as_bytes()),
    ])
}

/// One entry of a tape archive. The name is written raw, since the library refuses bad ones.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) kind: EntryType,
    pub(super) target: &'a str,
    pub(super) bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    pub(super) fn file(name: &'a str, bytes: &'a [u8]) -> Self {
        Self { name, kind: EntryType::Regular, target: "", bytes }
    }
}

pub(super) fn tarball(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for entry in entries {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        header.as_mut_bytes()[157..157 + entry.target.len()].copy_from_slice(entry.target.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_mode(0o644);
        header.set_size(entry.bytes.len() as u64);
        header.set_cksum();
        archive.append(&header, entry.bytes).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

pub(super) fn node_package(manifest: &serde_json::Value) -> Vec<u8> {
    let text = manifest.to_string();
    tarball(&[Entry::file("package/package.json", text.as_bytes()), Entry::file("package/index.js", b"module.exports = 1\n")])
}

pub(super) fn krate(name: &str, version: &str, needs: &[(&str, &str)]) -> Vec<u8> {
    let needs: String = needs.iter().map(|(name, version)| format!("{name} = \"{version}\"\n")).collect();
    let manifest = format!("[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2021\"\n[dependencies]\n{needs}");
    let folder = format!("{name}-{version}");
    tarball(&[
        Entry::file(&format!("{folder}/Cargo.toml"), manifest.as_bytes()),
        Entry::file(&format!("{folder}/src/lib.rs"), b"pub fn it() {}\n"),
    ])
}
