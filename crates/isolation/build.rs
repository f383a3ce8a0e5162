//! Builds the init that runs inside sandboxes, and the probe that measures them (`crates/init`): programs of their own, without libc, which the
//! library carries in its data.

#![expect(clippy::disallowed_methods, reason = "a build script starts a compiler, and hears from cargo by the environment")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let crates = here.parent().unwrap_or(&here);
    let (out, target) = (PathBuf::from(var("OUT_DIR")), var("TARGET"));
    for path in ["init/src", "init/Cargo.toml", "init/Cargo.lock", "init/build.rs", "wire/src", "wire/Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", crates.join(path).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    build(&crates.join("init/Cargo.toml"), &out.join("init"), &target);
    for (variable, name) in [("RINGFENCE_INIT", "ringfence-init"), ("RINGFENCE_PROBE", "ringfence-probe")] {
        let program = out.join("init").join(&target).join("release").join(name);
        println!("cargo:rustc-env={variable}={}", program.display());
    }
}

/// Settings of the build that called us.
const FOR_US: &[&str] = &["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"];

/// In a target folder of its own, so that the two cargos do not wait for each other, and without the flags and wrappers that are meant for us.
fn build(manifest: &Path, folder: &Path, target: &str) {
    let mut cargo = Command::new(var("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(folder).args(["--target", target]);
    let is_for_us = |name: &str| name.starts_with("CARGO_PROFILE_") || FOR_US.contains(&name);
    std::env::vars().map(|(name, _)| name).filter(|name| is_for_us(name)).for_each(|name| {
        cargo.env_remove(name);
    });
    match cargo.status() {
        Ok(status) if status.success() => {}
        outcome => panic!("the init of sandboxes could not be built from {}: {outcome:?}", manifest.display()),
    }
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
