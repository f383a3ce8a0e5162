//! Images built from recipes: pinned files only, and no program runs but in a sandbox.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::image::{busybox, profile};
use crate::support::Place;

/// A wheel with one module, and with a file that would be executed by whoever imported it by mistake outside.
fn wheel(place: &Place) -> PathBuf {
    let program = "import sys, zipfile\n\
        w = zipfile.ZipFile(sys.argv[1], 'w')\n\
        w.writestr(zipfile.ZipInfo('tiny.py'), 'answer = 42\\ndef main(): print(answer)\\n')\n\
        d = 'tiny-1.0.dist-info/'\n\
        w.writestr(zipfile.ZipInfo(d + 'METADATA'), 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n\
        w.writestr(zipfile.ZipInfo(d + 'WHEEL'), 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        w.writestr(zipfile.ZipInfo(d + 'entry_points.txt'), '[console_scripts]\\ntiny = tiny:main\\n')\n\
        w.writestr(zipfile.ZipInfo(d + 'RECORD'), 'tiny.py,,\\n' + d + 'METADATA,,\\n' + d + 'WHEEL,,\\n' + d + 'entry_points.txt,,\\n' + d + 'RECORD,,\\n')\n\
        w.close()\n";
    let path = place.write("files/tiny-1.0-py3-none-any.whl", "");
    let made = Command::new("/usr/bin/python3").args(["-c", program]).arg(&path).status().unwrap();
    assert!(made.success());
    path
}

/// A package with a script of its own, and a library where it stands in old packages.
fn package(place: &Place) -> PathBuf {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content, mode) in [("usr/bin/greet", "#!/bin/sh\ncat /lib/greeting\n", 0o755), ("lib/greeting", "hello\n", 0o644)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    let mut package = b"!<arch>\n".to_vec();
    for (name, content) in [("debian-binary", b"2.0\n".to_vec()), ("data.tar", tar.into_inner().unwrap())] {
        package.extend_from_slice(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, content.len()).as_bytes());
        package.extend_from_slice(&content);
    }
    place.write("files/greet.deb", package)
}

fn sha256(path: &PathBuf) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pinned(name: &str, digest: &str) -> String {
    format!("[{{ name = \"{name}\", version = \"1.0\", sha256 = [\"{digest}\"] }}]")
}

#[test]
fn wheels_and_packages_are_laid_over_the_hosts_image() {
    for place in Place::each() {
        let (wheel, package) = (wheel(&place), package(&place));
        let recipe = format!(
            "name = \"tiny\"\n[python]\nrequirements = {}\n[debian]\npackages = {}\n",
            pinned("tiny", &sha256(&wheel)),
            pinned("greet", &sha256(&package))
        );
        let (recipe, files) = (place.write("tiny.toml", recipe), place.path("files"));
        let build = || place.ringfence(&["image", "build", recipe.to_str().unwrap(), "--files", files.to_str().unwrap()]);
        let built = build();
        assert_eq!(built.status, 0, "{:?} {built:?}", place.user);
        assert_eq!(build().stdout, built.stdout, "the same files make the same image");
        let profile = profile(&place, "tiny");
        let script = "python3 -c 'import tiny; print(tiny.answer)'; tiny; greet; ls /usr/bin/env; cat /proc/self/mountinfo";
        let (report, status) = place.report(&["--profile", &profile], &["sh", "-c", script]);
        let said = report["stdout"].as_str().unwrap_or_else(|| panic!("{report}"));
        assert!(status == 0 && said.starts_with("42\n42\nhello\n/usr/bin/env\n"), "{:?} {report}", place.user);
        assert!(!said.contains("sha256-") && !said.contains(place.home().to_str().unwrap()), "{said}");
        let audit = place.ringfence(&["audit", "--profile", &profile]);
        assert!(audit.status == 0 && audit.stderr.contains(&format!("in image tiny:latest@{}", built.stdout.trim())), "{audit:?}");
        place.assert_clean();
    }
}

#[test]
fn packages_are_laid_over_an_imported_image() {
    for place in Place::each() {
        let imported = place.ringfence(&["image", "import", busybox(&place, "below").to_str().unwrap(), "--name", "below"]);
        assert_eq!(imported.status, 0, "{imported:?}");
        let recipe = format!("name = \"above\"\nbase = \"below\"\n[debian]\npackages = {}\n", pinned("greet", &sha256(&package(&place))));
        let recipe = place.write("above.toml", recipe);
        let built = place.ringfence(&["image", "build", recipe.to_str().unwrap(), "--files", place.path("files").to_str().unwrap()]);
        assert_eq!(built.status, 0, "{built:?}");
        let (report, status) = place.report(&["--profile", &profile(&place, "above")], &["sh", "-c", "greet; cat /mark"]);
        assert_eq!((report["stdout"].as_str(), status), (Some("hello\nbelow"), 0), "{:?} {report}", place.user);
        let refused = place.ringfence(&["image", "rm", "below"]);
        assert!(refused.status == 125 && refused.stderr.contains("is the base of"), "{refused:?}");
    }
}

#[test]
fn what_is_not_what_its_digest_says_is_not_built_with() {
    for place in Place::each() {
        let wheel = wheel(&place);
        let recipe = format!("name = \"tiny\"\n[python]\nrequirements = {}\n", pinned("tiny", &sha256(&wheel)));
        let recipe = place.write("tiny.toml", recipe);
        fs::write(&wheel, "something else").unwrap();
        let build = |arguments: &[&str]| place.ringfence(&[&["image", "build"], arguments].concat());
        let refused = build(&[recipe.to_str().unwrap(), "--files", place.path("files").to_str().unwrap()]);
        assert!(refused.status == 125 && refused.stderr.contains("`tiny` 1.0 is not there"), "{refused:?}");
        let unknown = build(&["nothing"]);
        assert!(unknown.status == 125 && unknown.stderr.contains("there are python, node"), "{unknown:?}");
        let odd = place.write("odd.toml", "name = \"odd\"\nsteps = [\"rm -rf /\"]\n");
        let odd = build(&[odd.to_str().unwrap()]);
        assert!(odd.status == 125 && odd.stderr.contains("unknown field"), "{odd:?}");
        let listed = place.ringfence(&["image", "ls", "--json"]);
        assert_eq!(listed.stdout.trim(), "[]");
    }
}
