//! cargo.

use ringfence_egress::packages::parse_lock;

use super::parcel;
use super::rig::{OPEN, Rig};
use super::shelf::{LONG_AGO, Shelf};

/// A project that needs these crates.
fn project(rig: &Rig, needs: &str) {
    rig.write("work/Cargo.toml", &format!("[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{needs}"));
    rig.write("work/src/lib.rs", "");
}

#[test]
fn cargo_fetches_a_tree_and_every_crate_is_on_record() {
    let shelf = Shelf::new();
    let child = shelf.krate("some_child", "1.2.0", &[], None);
    let parent = shelf.krate("parent", "1.0.0", &[("some_child", "^1")], None);
    let rig = Rig::new(&shelf, OPEN);
    project(&rig, "parent = \"1\"\n");
    rig.cargo(&["fetch"]).succeeds();
    let served = [("parent-1.0.0.crate", &parent), ("some_child-1.2.0.crate", &child)];
    assert_eq!(rig.served(), served.map(|(file, bytes)| (file.to_owned(), parcel::sha256(bytes))));
}

#[test]
fn pk_06_a_crate_that_is_not_listed_is_refused_with_the_rule() {
    let shelf = Shelf::new();
    shelf.krate("serde", "1.0.0", &[], None);
    shelf.krate("serde", "2.0.0", &[], None);
    shelf.krate("sedre", "1.0.0", &[], None);
    let rig = Rig::new(&shelf, "rust = \"allowlist\"\nminimum-age = \"0s\"\nallow = [\"rust:serde>=1.0,<2\"]\n");
    project(&rig, "sedre = \"1\"\n");
    rig.cargo(&["fetch"]).fails_saying("ringfence: rust package sedre is not on the list (rule: allowlist)");
    project(&rig, "serde = \"*\"\n");
    rig.cargo(&["fetch"]).succeeds();
    assert_eq!(rig.served().len(), 1);
    assert_eq!(rig.get("/rust/crates/serde/2.0.0/download").status, 403);
    assert!(!shelf.upstream.was_asked_about("sedre"));
    assert!(rig.refused().contains(&"serde 2.0.0 : allowlist".to_owned()));
}

#[test]
fn pk_07_a_child_outside_the_lock_is_refused() {
    let shelf = Shelf::new();
    let parent = shelf.krate("parent", "1.0.0", &[("child", "^1")], None);
    shelf.krate("child", "1.0.0", &[], None);
    let lock = format!(
        "version = 4\n\n[[package]]\nname = \"parent\"\nversion = \"1.0.0\"\nsource = \"registry+https://index.example/\"\nchecksum = \"{}\"\n",
        parcel::sha256(&parent)
    );
    let rig = Rig::with(&shelf, "rust = \"locked\"\n", parse_lock("Cargo.lock", &lock).unwrap(), |_| {});
    project(&rig, "parent = \"1\"\n");
    rig.cargo(&["fetch"]).fails_saying("ringfence: rust package child is in no lock file (rule: lock file)");
    assert_eq!(rig.get("/rust/crates/parent/1.0.0/download").body, parent);
}

/// The lock file is cargo's own, written while everything was open.
#[test]
fn a_lock_of_cargos_own_installs_what_it_pins_although_there_is_newer() {
    let shelf = Shelf::new();
    shelf.krate("some_child", "1.2.0", &[], None);
    shelf.krate("parent", "1.0.0", &[("some_child", "^1")], None);
    let open = Rig::new(&shelf, OPEN);
    project(&open, "parent = \"1\"\n");
    open.cargo(&["fetch"]).succeeds();
    let lock = std::fs::read_to_string(open.path("work").join("Cargo.lock")).unwrap();
    shelf.krate("some_child", "1.3.0", &[], None);
    let pins = parse_lock("Cargo.lock", &lock).unwrap();
    assert_eq!(pins.len(), 2);
    let locked = Rig::with(&shelf, "rust = \"locked\"\n", pins, |_| {});
    project(&locked, "parent = \"1\"\n");
    locked.cargo(&["fetch"]).succeeds();
    assert_eq!(std::fs::read_to_string(locked.path("work").join("Cargo.lock")).unwrap(), lock);
    assert_eq!(locked.served(), open.served());
}

#[test]
fn pk_08_a_crate_is_as_old_as_the_index_says_and_unknown_is_too_young() {
    let shelf = Shelf::new();
    shelf.krate("dated", "1.0.0", &[], Some(LONG_AGO));
    shelf.krate("undated", "1.0.0", &[], None);
    let rig = Rig::new(&shelf, "rust = \"open\"\n");
    assert_eq!(rig.get("/rust/crates/dated/1.0.0/download").status, 200);
    project(&rig, "undated = \"1\"\n");
    rig.cargo(&["fetch"]).fails_saying("ringfence: undated 1.0.0 has no time of publication in the index (rule: minimum age)");
}
