//! Links a release of the binary statically where the host has what that takes: it then runs on any Linux of its architecture, and starts without being linked
//! each time (docs/performance.md). Elsewhere it is linked as usual.
//!
//! The compiler's own switch for this (`crt-static`) cannot be set for one binary of a host build, since procedural macros refuse it. It names the
//! same libraries in both cases; so the linker is shown a folder in which those names stand for the static ones.

#![allow(clippy::disallowed_methods, reason = "a build script starts the compiler and reads what cargo tells it")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the compiler asks the linker for, and the archives that hold it.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("gcc_s", &["libgcc_eh.a", "libgcc.a"]),
    ("c", &["libc.a"]),
    ("m", &["libm.a"]),
    ("util", &[]),
    ("rt", &[]),
    ("pthread", &[]),
    ("dl", &[]),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_gnu = var("CARGO_CFG_TARGET_OS") == "linux" && var("CARGO_CFG_TARGET_ENV") == "gnu" && var("HOST") == var("TARGET");
    // The tests put faults under a debug build by a library that is loaded before the others.
    let is_release = var("PROFILE") == "release";
    if is_gnu && is_release && LIBRARIES.iter().flat_map(|(_, archives)| *archives).all(|archive| is_here(archive)) {
        let folder = PathBuf::from(var("OUT_DIR")).join("static");
        stand_in(&folder).unwrap_or_else(|error| panic!("write {}: {error}", folder.display()));
        println!("cargo:rustc-link-arg-bins=-static-pie");
        println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
    }
}

/// The C compiler answers with a whole path for a file that it knows.
fn is_here(archive: &str) -> bool {
    let answer = Command::new("cc").arg(format!("-print-file-name={archive}")).output();
    answer.is_ok_and(|answer| Path::new(String::from_utf8_lossy(&answer.stdout).trim()).is_absolute())
}

/// Linker scripts under the names of the shared libraries.
fn stand_in(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    LIBRARIES.iter().try_for_each(|(name, archives)| {
        let archives: String = archives.iter().map(|archive| format!(" -l:{archive}")).collect();
        std::fs::write(folder.join(format!("lib{name}.so")), format!("GROUP ({archives} )\n"))
    })
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
