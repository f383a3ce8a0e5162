//! A file's name, what it was and what a program made of it, with `=====` lines between them: the patch that leaves makes the one from the other,
//! and a repository's settings lose what runs programs.
#![no_main]

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use ringfence_isolation::{PatchRequest, scan, write_patch};
use tempfile::TempDir;

const BETWEEN: &[u8] = b"\n=====\n";

fuzz_target!(|bytes: &[u8]| {
    let mut parts = Parts(bytes);
    let (name, old, new) = (parts.next(), parts.next(), parts.next());
    settings(old);
    let is_name = !name.is_empty() && name.len() < 256 && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0);
    if is_name {
        patched(OsStr::from_bytes(name), old, new);
    }
});

struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn next(&mut self) -> &'a [u8] {
        let at = self.0.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        let part = &self.0[..at.unwrap_or(self.0.len())];
        self.0 = at.map_or(&[], |at| &self.0[at + BETWEEN.len()..]);
        part
    }
}

/// Two folders that are kept from input to input; what is in them is not.
fn room() -> &'static Path {
    static ROOM: OnceLock<TempDir> = OnceLock::new();
    let make = || {
        let room = TempDir::with_prefix_in("ringfence-fuzz-", "/dev/shm").unwrap();
        ["base", "workspace", "project/.git"].iter().for_each(|folder| fs::create_dir_all(room.path().join(folder)).unwrap());
        room
    };
    ROOM.get_or_init(make).path()
}

fn patched(name: &OsStr, old: &[u8], new: &[u8]) {
    let (base, workspace) = (room().join("base"), room().join("workspace"));
    fs::write(base.join(name), old).unwrap();
    fs::write(workspace.join(name), new).unwrap();
    let folder = fs::File::open(&workspace).unwrap();
    let request = PatchRequest {
        base: &base,
        workspace: folder.as_fd(),
        changes: None,
        hidden: &[],
        replaced: &[],
        most_bytes: 1 << 20,
        since: None,
    };
    let (patch, summary) = write_patch(&request, &mut |_| Ok(())).unwrap();
    let is_text = |bytes: &[u8]| !bytes[..bytes.len().min(8000)].contains(&0);
    if summary.changed == 1 && is_text(old) && is_text(new) {
        assert_eq!(apply(&patch, old), new, "{}", String::from_utf8_lossy(&patch));
    }
    fs::remove_file(base.join(name)).unwrap();
    fs::remove_file(workspace.join(name)).unwrap();
}

/// Applies the hunks of a patch of one file, in the plainest way.
fn apply(patch: &[u8], old: &[u8]) -> Vec<u8> {
    let mut lines = patch.split_inclusive(|b| *b == b'\n').skip_while(|line| !line.starts_with(b"@@ ")).peekable();
    let mut rest = old.split_inclusive(|b| *b == b'\n');
    let (mut made, mut taken) = (Vec::<Vec<u8>>::new(), 0);
    while let Some(header) = lines.next() {
        let ([start, removed], mut added) = spans(header);
        let before = if removed == 0 { start } else { start - 1 };
        made.extend(rest.by_ref().take(before - taken).map(<[u8]>::to_vec));
        taken = before + removed;
        let mut left = removed;
        while left > 0 || added > 0 {
            let line = lines.next().expect("a hunk is as long as it says");
            let is_cut = lines.next_if(|next| next.starts_with(b"\\")).is_some();
            let content = &line[1..line.len() - usize::from(is_cut)];
            if line[0] != b'+' {
                assert_eq!(rest.next(), Some(content), "what is there is what the patch says");
                left -= 1;
            }
            if line[0] != b'-' {
                made.push(content.to_vec());
                added -= 1;
            }
        }
    }
    made.extend(rest.map(<[u8]>::to_vec));
    made.concat()
}

/// Start and length before, and length after: `@@ -start,length +start,length @@`.
fn spans(header: &[u8]) -> ([usize; 2], usize) {
    let text = std::str::from_utf8(header).unwrap();
    let span = |sign: char| {
        let (start, length) =
            text.split(' ').find_map(|word| word.strip_prefix(sign)).map(|w| w.split_once(',').unwrap_or((w, "1"))).unwrap();
        [start.parse().unwrap(), length.parse().unwrap()]
    };
    (span('-'), span('+')[1])
}

/// Read once more, harmless settings stay as they are: what was left out does not come back in another form.
fn settings(text: &[u8]) {
    let once = harmless(text);
    assert_eq!(harmless(once.as_bytes()), once);
    for line in once.lines() {
        let word = line.trim_start_matches(['\t', '[']).split([' ', ']', '=']).next().unwrap_or_default().to_ascii_lowercase();
        assert!(
            !["fsmonitor", "hookspath", "sshcommand", "include", "filter", "alias", "credential", "pager"].contains(&word.as_str()),
            "{line}"
        );
    }
}

fn harmless(text: &[u8]) -> String {
    let project = room().join("project");
    fs::write(project.join(".git/config"), text).unwrap();
    let scanned = scan(&project, &[], &mut |_| Ok(())).unwrap();
    scanned.veil.replaced.into_iter().next().map(|(_, text)| text).unwrap()
}
