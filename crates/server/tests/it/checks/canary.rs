//! A file outside the store that tells whether anybody opened it, as the kernel sees it and whoever opens it.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify;

const NAME: &str = "canary.txt";
const TEXT: &str = "CANARY-OF-THE-HOST";

/// The file, watched.
pub(super) struct Canary {
    path: PathBuf,
    watch: OwnedFd,
}

impl Canary {
    /// Lays one into a folder.
    pub(super) fn lay(folder: &Path) -> Self {
        let path = folder.join(NAME);
        fs::write(&path, TEXT).unwrap();
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, &path, inotify::WatchFlags::ALL_EVENTS).unwrap();
        Self { path, watch }
    }

    /// Ways to name it from a folder of the store or from a sandbox, and other files that no client is to have, each as the bytes of a file's name.
    pub(super) fn spellings(&self) -> Vec<String> {
        let up = (1..=5).map(|depth| format!("{}{NAME}", "../".repeat(depth)));
        let odd =
            ["../../etc/shadow", "/etc/shadow", "..", ".", "a/../../b", "a\0b", "..\\..\\canary.txt", "\\etc\\shadow", "//etc/shadow"];
        let absolute = self.path.to_str().unwrap().to_owned();
        up.chain(odd.map(str::to_owned)).chain([format!("{absolute}\0"), absolute]).collect()
    }

    /// Nobody opened it since; that somebody would be seen is shown at the end.
    pub(super) fn assert_unopened(self) {
        assert_eq!(self.events(), 0, "somebody opened, read or changed `{}`", self.path.display());
        assert_eq!(fs::read_to_string(&self.path).unwrap(), TEXT);
        assert!(self.events() > 0, "nobody would have been seen");
    }

    fn events(&self) -> usize {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.watch, &mut room);
        std::iter::from_fn(|| reader.next().ok().map(|_| ())).count()
    }
}
