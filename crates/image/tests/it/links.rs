//! Links are data: they are kept, and never followed while an image is unpacked.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::support::{Place, Tar};

#[test]
fn a_link_is_kept_as_it_is_wherever_it_leads() {
    let place = Place::new();
    let root =
        place.unpack(Tar::default().link("out", "/etc/passwd").link("up", "../../../..").link("bin", "usr/bin").folder("usr/bin")).unwrap();
    for (name, target) in [("out", "/etc/passwd"), ("up", "../../../.."), ("bin", "usr/bin")] {
        assert_eq!(fs::read_link(root.join(name)).unwrap().to_str().unwrap(), target);
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    for target in ["../victim", "/tmp", "inside", "."] {
        let place = Place::new();
        fs::create_dir_all(place.path("victim")).unwrap();
        let one_layer = Tar::default().folder("inside").link("l", target).file("l/new", "x");
        let error = place.unpack(one_layer).unwrap_err().to_string();
        assert!(error.contains("is a link or a file"), "{error}");
        let layers = vec![Tar::default().folder("inside").link("l", target), Tar::default().file("l/new", "x")];
        let error = place.layers(layers).unwrap_err().to_string();
        assert!(error.contains("is a link or a file"), "{error}");
        assert_eq!(fs::read_dir(place.path("victim")).unwrap().count(), 0);
        place.assert_nothing_kept();
    }
}

#[test]
fn a_file_replaces_a_link_and_is_not_written_through_it() {
    let place = Place::new();
    let victim = place.write("victim", "ORIGINAL");
    let root = place.layers(vec![Tar::default().link("f", victim.to_str().unwrap()), Tar::default().file("f", "new")]).unwrap();
    assert_eq!((fs::read_to_string(root.join("f")).unwrap(), fs::read_to_string(victim).unwrap()), ("new".into(), "ORIGINAL".into()));
}

#[test]
fn a_folder_replaces_a_link_to_a_folder() {
    let place = Place::new();
    let layers = vec![Tar::default().file("usr/lib/a", "a").link("lib", "usr/lib"), Tar::default().folder("lib").file("lib/b", "b")];
    let root = place.layers(layers).unwrap();
    assert!(fs::symlink_metadata(root.join("lib")).unwrap().is_dir() && root.join("lib/b").exists() && !root.join("usr/lib/b").exists());
}

#[test]
fn a_hard_link_leads_to_a_file_of_the_image_only() {
    let place = Place::new();
    let root = place.layers(vec![Tar::default().file("a", "x"), Tar::default().hard_link("d/b", "a").hard_link("d/c", "./d/b")]).unwrap();
    assert_eq!(fs::metadata(root.join("a")).unwrap().nlink(), 3);
    for (target, cause) in [
        ("/etc/passwd", "absolute"),
        ("../../victim", "leads out"),
        ("missing", "no file of the image"),
        ("d", "no file of the image"),
        ("", "no file"),
    ] {
        let place = Place::new();
        let victim = place.write("victim", "ORIGINAL");
        let error = place.unpack(Tar::default().folder("d").hard_link("x", target)).unwrap_err().to_string();
        assert!(error.contains(cause), "{target}: {error}");
        assert_eq!(fs::metadata(&victim).unwrap().nlink(), 1);
        let through = Tar::default().link("l", victim.to_str().unwrap()).hard_link("x", "l");
        assert!(place.unpack(through).unwrap_err().to_string().contains("no file of the image"));
        let through = Tar::default().link("l", place.path("").to_str().unwrap()).hard_link("x", "l/victim");
        assert!(place.unpack(through).unwrap_err().to_string().contains("is a link or a file"));
        place.assert_nothing_kept();
    }
}

/// A later layer that changes one name of a file leaves the other one alone.
#[test]
fn a_file_is_never_written_through_its_other_name() {
    let place = Place::new();
    let layers = vec![Tar::default().file("a", "old").hard_link("b", "a"), Tar::default().file("b", "new")];
    let root = place.layers(layers).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "old");
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "new");
}
