//! Images in parts: which of them is taken, and that each of them is what it is said to be.

use std::fs;
use std::os::unix::fs::symlink;

use ringfence_policy::ImageName;
use serde_json::json;

use crate::support::{Layout, Place, Tar, architecture, digest, gzip};

fn two_layers() -> Vec<(Vec<u8>, Vec<u8>)> {
    let (below, above) = (Tar::default().file("a", "a").file("b", "b").bytes(), Tar::default().file(".wh.a", "").file("c", "c").bytes());
    vec![(gzip(&below), below), (zstd::encode_all(above.as_slice(), 1).unwrap(), above)]
}

#[test]
fn a_layout_becomes_an_image_under_the_digest_of_its_manifest() {
    let place = Place::new();
    let layout = Layout::new(place.path("layout"), &two_layers());
    let facts = place.import(&layout.folder, "team/tools:1").unwrap();
    assert_eq!(facts.digest.as_str(), layout.manifest);
    assert_eq!((facts.created.as_deref(), facts.files, facts.bytes), (Some("2024-05-06T07:08:09Z"), 3, 3));
    assert_eq!(facts.environment, [("PATH", "/opt/bin:/bin"), ("TOOL_HOME", "/opt")].map(|(n, v)| (n.to_owned(), v.to_owned())).into());
    let held = place.images.find(&"team/tools:1".parse::<ImageName>().unwrap()).unwrap();
    assert!(!held.root.join("a").exists() && held.root.join("b").exists() && held.root.join("c").exists());
}

#[test]
fn the_archive_of_a_layout_is_the_same_image() {
    for pack in [|tar: Vec<u8>| tar, |tar: Vec<u8>| gzip(&tar), |tar: Vec<u8>| zstd::encode_all(tar.as_slice(), 1).unwrap()] {
        let place = Place::new();
        let layout = Layout::new(place.path("layout"), &two_layers());
        let facts = place.import(&place.write("layout.tar", pack(layout.tar())), "it").unwrap();
        assert_eq!(facts.digest.as_str(), layout.manifest);
        assert!(place.root(&facts).join("c").exists());
    }
}

#[test]
fn a_plain_tar_is_an_image_under_its_own_digest() {
    let place = Place::new();
    let tar = Tar::default().file("etc/passwd", "root:x:0:0::/:/bin/sh\nagent:x:7:7::/:/x\n").file("index.json", "{}").bytes();
    let plain = place.import(&place.write("plain.tar", &tar), "it").unwrap();
    assert_eq!(plain.digest.as_str(), digest(&tar));
    assert_eq!(place.import(&place.write("packed.tar.gz", gzip(&tar)), "it").unwrap(), plain);
    let passwd = fs::read_to_string(place.root(&plain).join("etc/passwd")).unwrap();
    assert_eq!(passwd, "agent:x:1000:1000:agent:/workspace:/bin/sh\nroot:x:0:0::/:/bin/sh\n");
}

#[test]
fn what_docker_saves_is_read_and_its_layers_are_checked() {
    let place = Place::new();
    let layer = Tar::default().file("a", "a").bytes();
    let config = json!({ "architecture": architecture(), "os": "linux", "rootfs": { "diff_ids": [digest(&layer)] } }).to_string();
    let archive = |layer: &[u8]| {
        let manifest = json!([{ "Config": "c.json", "RepoTags": ["x:y"], "Layers": ["1/layer.tar"] }]).to_string();
        let tar = Tar::default().file("manifest.json", &manifest).file("c.json", &config);
        tar.entry(b'0', "2/layer.tar", "", layer).link("1/layer.tar", "../2/layer.tar").bytes()
    };
    let facts = place.import(&place.write("saved.tar", archive(&layer)), "it").unwrap();
    assert_eq!(facts.digest.as_str(), digest(config.as_bytes()));
    assert!(place.root(&facts).join("a").exists());
    let other = Tar::default().file("a", "evil").bytes();
    let error = place.import(&place.write("saved.tar", archive(&other)), "it").unwrap_err().to_string();
    assert!(error.contains("layer 1 is damaged"), "{error}");
}

#[test]
fn the_manifest_for_this_machine_is_chosen() {
    let place = Place::new();
    let layout = Layout::new(place.path("layout"), &two_layers());
    let platform = |architecture: &str| json!({ "os": "linux", "architecture": architecture });
    let described = |digest: &str, platform: serde_json::Value| json!({ "digest": digest, "size": fs::metadata(layout.path(digest)).unwrap().len(), "platform": platform });
    let junk = layout.blob(b"{}")["digest"].as_str().unwrap().to_owned();
    let (ours, theirs) = (described(&layout.manifest, platform(architecture())), described(&junk, platform("s390x")));
    let mut attested = described(&junk, platform(architecture()));
    attested["annotations"] = json!({ "vnd.docker.reference.type": "attestation-manifest" });
    let nested = layout.blob(json!({ "manifests": [theirs, ours, ours, attested] }).to_string().as_bytes());
    layout.index(&json!([nested]));
    assert_eq!(place.import(&layout.folder, "it").unwrap().digest.as_str(), layout.manifest);
    layout.index(&json!([theirs]));
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("names 0 images"));
    layout.index(&json!([ours, described(&junk, platform(architecture()))]));
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("names 2 images"));
}

#[test]
fn an_image_for_another_machine_is_refused() {
    let place = Place::new();
    let layout = Layout::new(place.path("layout"), &[]);
    let config = layout.blob(br#"{"architecture":"s390x","os":"linux","rootfs":{"diff_ids":[]}}"#);
    let manifest = layout.blob(json!({ "config": config, "layers": [] }).to_string().as_bytes());
    layout.index(&json!([manifest]));
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("made for linux/s390x"));
}

#[test]
fn a_part_that_is_not_what_its_digest_says_is_refused() {
    type Change = fn(&Layout, &str);
    let changes: [(&str, Change); 5] = [
        ("its bytes have the digest", |layout, layer| flip(&layout.path(layer))),
        ("its bytes have the digest", |layout, _| flip(&layout.path(&layout.manifest))),
        ("its bytes have the digest", |layout, _| flip(&layout.config())),
        ("bytes, not", |layout, layer| fs::write(layout.path(layer), "short").unwrap()),
        ("open", |layout, layer| fs::remove_file(layout.path(layer)).unwrap()),
    ];
    for (cause, change) in changes {
        let place = Place::new();
        let layers = two_layers();
        let layout = Layout::new(place.path("layout"), &layers);
        change(&layout, &digest(&layers[1].0));
        let error = place.import(&layout.folder, "it").unwrap_err().to_string();
        assert!(error.contains(cause), "{error}");
        place.assert_nothing_kept();
    }
    let place = Place::new();
    let layer = Tar::default().file("a", "a").bytes();
    let layout = Layout::new(place.path("layout"), &[(gzip(&layer), b"something else".to_vec())]);
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("its content has the digest"));
}

fn flip(path: &std::path::Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_layout_does_not_lead_out_of_its_folder() {
    let place = Place::new();
    let layer = Tar::default().file("a", "a").bytes();
    let layout = Layout::new(place.path("layout"), &[(layer.clone(), layer.clone())]);
    let outside = place.write("outside", &layer);
    fs::remove_file(layout.path(&digest(&layer))).unwrap();
    symlink(outside, layout.path(&digest(&layer))).unwrap();
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("open"));
    fs::remove_file(layout.path(&digest(&layer))).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, layout.path(&digest(&layer)), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("is not a file"));
}

#[test]
fn documents_without_an_end_are_refused() {
    let place = Place::new();
    let layout = Layout::new(place.path("layout"), &[]);
    fs::write(layout.folder.join("index.json"), " ".repeat(5 << 20)).unwrap();
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("longer than 4194304 bytes"));
    fs::write(layout.folder.join("index.json"), "[".repeat(1 << 20)).unwrap();
    assert!(place.import(&layout.folder, "it").unwrap_err().to_string().contains("damaged"));
    fs::create_dir(place.path("empty")).unwrap();
    assert!(place.import(&place.path("empty"), "it").unwrap_err().to_string().contains("holds no image"));
}
