//! What is kept: names, roots that can be shown, and what goes.

use std::fs;

use ringfence_image::ImageError;
use ringfence_policy::ImageName;

use crate::support::{Place, Tar};

fn name(text: &str) -> ImageName {
    text.parse().unwrap()
}

fn tar(place: &Place, content: &str) -> std::path::PathBuf {
    place.write("root.tar", Tar::default().file("a", content).bytes())
}

#[test]
fn a_moved_name_finds_the_new_image_and_a_pinned_one_the_old() {
    let place = Place::new();
    let old = place.import(&tar(&place, "old"), "tools").unwrap().digest;
    let pinned = name(&format!("tools@{old}"));
    let new = place.import(&tar(&place, "new"), "tools").unwrap().digest;
    assert_eq!(place.images.find(&name("tools")).unwrap().facts.digest, new);
    assert_eq!(place.images.find(&pinned).unwrap().facts.digest, old);
    assert_eq!(place.images.remove(&name(old.as_str())).unwrap(), Some(old.clone()));
    let error = place.images.find(&pinned).unwrap_err();
    assert_eq!(error.to_string(), format!("image `tools:latest` has moved: it is {new} now, and {old} is not here"));
    assert_eq!(place.images.remove(&name("tools")).unwrap(), Some(new));
    let error = place.images.find(&name("tools")).unwrap_err();
    assert_eq!(error.to_string(), "there is no image `tools:latest` here");
    assert!(error.hint().contains("ringfence image import SOURCE --name tools:latest"));
    assert!(matches!(place.images.find(&pinned), Err(ImageError::Absent(_))));
}

#[test]
fn an_image_goes_with_the_last_of_its_names() {
    let place = Place::new();
    let digest = place.import(&tar(&place, "x"), "one").unwrap().digest;
    place.import(&tar(&place, "x"), "team/two:2").unwrap();
    let listed = place.images.list().unwrap();
    assert_eq!(
        (listed.len(), listed[0].names.iter().map(ToString::to_string).collect::<Vec<_>>()),
        (1, vec!["one:latest".into(), "team/two:2".into()])
    );
    assert_eq!(place.images.remove(&name("one")).unwrap(), None);
    assert!(matches!(place.images.remove(&name("one")), Err(ImageError::Absent(_))));
    assert_eq!(place.images.remove(&name("team/two:2")).unwrap(), Some(digest));
    assert_eq!(place.images.list().unwrap(), []);
}

#[test]
fn an_image_is_not_removed_while_it_is_held() {
    let place = Place::new();
    let digest = place.import(&tar(&place, "x"), "one").unwrap().digest;
    let held = place.images.find(&name("one")).unwrap();
    assert!(matches!(place.images.remove(&name("one")), Err(ImageError::InUse(_))));
    assert!(held.root.join("a").exists() && place.images.find(&name("one")).is_ok());
    drop(held);
    assert_eq!(place.images.remove(&name(digest.as_str())).unwrap(), Some(digest));
}

#[test]
fn a_root_has_what_a_sandbox_needs_and_nothing_of_it_leads_out() {
    let place = Place::new();
    let victim = place.path("victim");
    fs::create_dir(&victim).unwrap();
    let out = victim.to_str().unwrap();
    let hostile = Tar::default().link("proc", out).link("tmp", out).file("dev", "x").link("run", out).link("workspace", "/").folder("etc");
    let hostile =
        hostile.link("etc/passwd", "/etc/shadow").folder("etc/hosts").file("etc/hosts/x", "").link("etc/mtab", out).link("etc/group", out);
    let root = place.unpack(hostile).unwrap();
    for folder in ["proc", "dev", "sys", "tmp", "inputs", "workspace", "run/ringfence", "etc"] {
        let mut at = root.clone();
        folder.split('/').for_each(|part| {
            at.push(part);
            assert!(fs::symlink_metadata(&at).unwrap().is_dir(), "{folder}");
        });
    }
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert!(fs::read_to_string(root.join("etc/passwd")).unwrap().starts_with("agent:x:1000:1000:"));
    assert!(!fs::read_to_string(root.join("etc/passwd")).unwrap().contains("daemon"));
    assert!(fs::symlink_metadata(root.join("etc/hosts")).unwrap().is_file());
    assert_eq!(fs::read_link(root.join("etc/mtab")).unwrap().to_str().unwrap(), "/proc/self/mounts");
}

#[test]
fn an_image_whose_etc_is_no_folder_is_refused() {
    for etc in [Tar::default().link("etc", "/etc"), Tar::default().file("etc", "x")] {
        let place = Place::new();
        assert!(place.unpack(etc).unwrap_err().to_string().contains("its /etc is a link or a file"));
        place.assert_nothing_kept();
    }
}
