//! The tar of a state: whatever it says, only its two trees are written, and what was laid out is saved and laid out again as the same.
#![no_main]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use ringfence_isolation::{StateError, Trees};
use tempfile::TempDir;

const BLOCK: usize = 512;
const MOST: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    // Without its sum a header is not read: where the bytes only lack that, they are given it.
    for tar in [bytes.to_vec(), with_sums(bytes)] {
        let saved = laid_out(&tar, |trees| {
            let mut saved = Vec::new();
            trees.save(&mut saved, MOST, &mut |_| Ok(())).map(|_| saved)
        });
        if let Ok(Ok(saved)) = saved {
            let again = laid_out(&saved, |trees| {
                let mut again = Vec::new();
                trees.save(&mut again, MOST, &mut |_| Ok(())).map(|_| again)
            });
            assert_eq!(again.expect("what was saved is laid out").expect("and saved"), saved);
        }
    }
});

/// Puts the sum into every block that has the mark of a header.
fn with_sums(bytes: &[u8]) -> Vec<u8> {
    let mut tar = bytes.to_vec();
    for block in tar.chunks_exact_mut(BLOCK).filter(|block| &block[257..265] == b"ustar\x0000") {
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    tar
}

/// Lays out a tar in two empty folders, and does something with them.
fn laid_out<T>(tar: &[u8], then: impl FnOnce(&Trees) -> T) -> Result<T, StateError> {
    let room = Room::empty();
    let trees = Trees::in_folders(room.open("workspace"), room.open("tmp"));
    let done = trees.restore(&mut &tar[..], &mut |_| Ok(())).map(|_| then(&trees));
    room.assert_rest_untouched();
    done
}

/// A folder with the two, and a file beside them that stays as it is.
struct Room(&'static Path);

impl Room {
    fn empty() -> Self {
        static ROOM: OnceLock<TempDir> = OnceLock::new();
        let room = ROOM.get_or_init(|| TempDir::with_prefix_in("ringfence-fuzz-", "/dev/shm").unwrap()).path();
        for tree in ["workspace", "tmp"] {
            let tree = room.join(tree);
            if tree.exists() {
                remove(&tree);
            }
            fs::create_dir(tree).unwrap();
        }
        fs::write(room.join("beside"), "beside").unwrap();
        Self(room)
    }

    fn open(&self, tree: &str) -> OwnedFd {
        fs::File::open(self.0.join(tree)).unwrap().into()
    }

    fn assert_rest_untouched(&self) {
        let mut names: Vec<PathBuf> = fs::read_dir(self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        assert_eq!(names, ["beside", "tmp", "workspace"].map(|name| self.0.join(name)));
        assert_eq!(fs::read(self.0.join("beside")).unwrap(), b"beside");
        assert!(names.iter().skip(1).all(|tree| fs::symlink_metadata(tree).unwrap().is_dir()));
    }
}

/// Removes a tree whatever its modes are.
fn remove(tree: &Path) {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(tree, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(tree).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            remove(&path);
        } else {
            fs::remove_file(&path).unwrap();
        }
    }
    fs::remove_dir(tree).unwrap();
}
