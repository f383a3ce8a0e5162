//! What a layer takes away, and what it only pretends to.

use std::fs;
use std::path::Path;

use crate::support::{Place, Tar};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().flatten().map(|e| e.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn below() -> Tar {
    Tar::default().file("d/old", "old").file("d/sub/deep/old", "old").file("keep", "keep").folder("empty")
}

#[test]
fn a_whiteout_hides_what_is_below_and_only_that() {
    let place = Place::new();
    let root = place
        .layers(vec![below(), Tar::default().file("d/.wh.old", "").file(".wh.empty", "").file("d/.wh.never", "").file("none/.wh.x", "")])
        .unwrap();
    assert_eq!(names(&root.join("d")), ["sub"]);
    assert!(!root.join("empty").exists() && !root.join("none").exists() && root.join("keep").exists());
}

/// Whichever comes first.
#[test]
fn a_whiteout_leaves_alone_what_its_own_layer_brings() {
    for is_first in [true, false] {
        let place = Place::new();
        let (new, opaque) = (
            |tar: Tar| tar.file("d/sub/deep/new", "new").file("d/new", "new"),
            |tar: Tar| tar.file("d/.wh..wh..opq", "").file(".wh.keep", ""),
        );
        let layer = if is_first { new(opaque(Tar::default())) } else { opaque(new(Tar::default())) };
        let root = place.layers(vec![below(), layer.file("keep", "again")]).unwrap();
        assert_eq!((names(&root.join("d")), names(&root.join("d/sub/deep"))), (vec!["new".into(), "sub".into()], vec!["new".to_owned()]));
        assert_eq!(fs::read_to_string(root.join("keep")).unwrap(), "again");
    }
}

#[test]
fn a_whiteout_of_a_folder_that_its_layer_fills_hides_the_rest_of_it() {
    let place = Place::new();
    let root = place.layers(vec![below(), Tar::default().file("d/new", "new").file(".wh.d", "")]).unwrap();
    assert_eq!(names(&root.join("d")), ["new"]);
}

#[test]
fn a_whiteout_that_reaches_further_is_refused() {
    for (layer, cause) in [
        (Tar::default().file(".wh...", ""), "does not stand in"),
        (Tar::default().file("d/.wh..", ""), "does not stand in"),
        (Tar::default().file("d/.wh.", ""), "does not stand in"),
        (Tar::default().file("d/.wh.a/b", ""), "below a whiteout"),
        (Tar::default().link("d/.wh.old", "x"), "not a file"),
        (Tar::default().folder("d/.wh.old"), "not a file"),
    ] {
        let place = Place::new();
        let error = place.layers(vec![below(), layer]).unwrap_err().to_string();
        assert!(error.contains(cause), "{error}");
        place.assert_nothing_kept();
    }
}

#[test]
fn a_whiteout_does_not_reach_through_a_link() {
    for name in ["l/.wh.file", "l/.wh..wh..opq", "l/sub/.wh.file"] {
        let place = Place::new();
        let victim = place.write("victim/file", "ORIGINAL");
        place.write("victim/sub/file", "ORIGINAL");
        let link = Tar::default().link("l", place.path("victim").to_str().unwrap());
        let error = place.layers(vec![link.clone(), Tar::default().file(name, "")]).unwrap_err().to_string();
        assert!(error.contains("is a link or a file"), "{error}");
        assert!(victim.exists() && place.path("victim/sub/file").exists());
        // The link itself can be hidden.
        let root = place.layers(vec![link, Tar::default().file(".wh.l", "")]).unwrap();
        assert!(fs::symlink_metadata(root.join("l")).is_err() && victim.exists());
    }
}

#[test]
fn marks_of_an_old_union_file_system_are_left_out() {
    let place = Place::new();
    let root = place.layers(vec![below(), Tar::default().folder("d").file("d/.wh..wh.orph", "").file(".wh..wh.plnk", "")]).unwrap();
    assert_eq!(names(&root.join("d")), ["old", "sub"]);
}
