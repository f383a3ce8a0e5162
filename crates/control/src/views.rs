//! Turns inputs and a project into what a sandbox can be made of: checked, scanned for secrets, copied where a view is not enough, and on record.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ringfence_evidence::{Digest, InputRecord};
use ringfence_isolation::{FolderView, Identity, Owner, Scan, SnapshotError, can_map_ids, copy_file, copy_tree, scan};
use ringfence_policy::{Layer, Refusal, WorkspacePath};

use crate::report::HiddenReport;
use crate::request::{Progress, RunRequest};

/// Folders of the host that every run sees.
const IMAGE: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// What a run sees of the host's files.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) inputs: Option<FolderView>,
    pub(crate) input_folders: Vec<(String, FolderView)>,
    pub(crate) project: Option<FolderView>,
    pub(crate) records: Vec<InputRecord>,
    pub(crate) hidden: Vec<HiddenReport>,
}

/// Why there are no views.
#[derive(Debug)]
pub(crate) enum NoViews {
    /// Something was asked for that cannot be given.
    Refused(Refusal),
    /// The caller asked to stop.
    Interrupted,
}

impl From<Refusal> for NoViews {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Prepares the views; private copies go to `work`. `is_laid_out` says that the project is a tree of our own, `stop` whether the caller has asked to stop.
pub(crate) fn prepare(
    request: &RunRequest,
    record: &Path,
    identity: Identity,
    work: &Path,
    is_laid_out: bool,
    progress: &mut dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Views, NoViews> {
    let (homes, handed_over) = (request.homes.as_slice(), request.handed_over.as_deref());
    let mut preparation = Preparation { record, handed_over, homes, identity, work, is_laid_out, progress, stop, views: Views::default() };
    preparation.inputs(request)?;
    if let Some(project) = &request.project {
        preparation.project(project, request)?;
    }
    Ok(preparation.views)
}

struct Preparation<'a> {
    record: &'a Path,
    /// A folder of ours in which a server has laid out inputs.
    handed_over: Option<&'a Path>,
    homes: &'a [PathBuf],
    identity: Identity,
    work: &'a Path,
    is_laid_out: bool,
    progress: &'a mut dyn Progress,
    stop: &'a dyn Fn() -> bool,
    views: Views,
}

impl Preparation<'_> {
    fn inputs(&mut self, request: &RunRequest) -> Result<(), NoViews> {
        if request.inputs.is_empty() {
            return Ok(());
        }
        make_private(self.work)?;
        let folder = self.work.join("inputs");
        make(&folder)?;
        for input in &request.inputs {
            let path = resolve("input", &input.path)?;
            let inside = folder.join(&input.name);
            if inside.symlink_metadata().is_ok() {
                return Err(
                    refusal(format!("two inputs have the name `{}`", input.name), "give one another name: --input PATH=NAME").into()
                );
            }
            self.guard("input", &path)?;
            let meta = fs::metadata(&path).map_err(|e| unreadable("input", &path, &e))?;
            if meta.is_dir() {
                make(&inside)?;
                self.input_folder(&input.name, &path)?;
            } else {
                self.input_file(&input.name, &path, &inside)?;
            }
        }
        self.views.inputs = Some(FolderView { path: folder, owner: None, veil: Default::default() });
        Ok(())
    }

    fn input_file(&mut self, name: &str, path: &Path, inside: &Path) -> Result<(), NoViews> {
        let mut done = 0;
        let copied = copy_file(path, inside, self.identity, &mut |bytes| {
            done += bytes;
            self.progress.tell("bytes of inputs", done);
            go_on(self.stop)
        });
        let copied = copied.map_err(|e| self.no_copy(&e, "name a regular file or folder that you can read"))?;
        self.views.records.push(InputRecord {
            name: name.to_owned(),
            kind: "file".into(),
            files: 1,
            bytes: copied.bytes,
            sha256: copied.sha256.parse().unwrap_or_else(|_| Digest::zero()),
            digest_of: "content".into(),
            hidden: Vec::new(),
        });
        Ok(())
    }

    fn input_folder(&mut self, name: &str, path: &Path) -> Result<(), NoViews> {
        let view = self.folder(&format!("inputs/{name}"), name, "folder", path, &[])?;
        self.views.input_folders.push((name.to_owned(), view));
        Ok(())
    }

    fn project(&mut self, path: &Path, request: &RunRequest) -> Result<(), NoViews> {
        let path = resolve("project", path)?;
        if !path.is_dir() {
            return Err(refusal(format!("project `{}` is not a folder", path.display()), "name a folder").into());
        }
        if !self.is_laid_out {
            self.guard("project", &path)?;
        }
        let view = self.folder("", "workspace", "project", &path, &request.reveal)?;
        self.views.project = Some(view);
        Ok(())
    }

    fn no_copy(&self, error: &SnapshotError, hint: &str) -> NoViews {
        match (self.stop)() {
            true => NoViews::Interrupted,
            false => refusal(error.to_string(), hint).into(),
        }
    }

    /// A whole home holds keys and histories; the record holds the key that seals it. The first can be given in parts, the second not at all.
    fn guard(&self, what: &str, path: &Path) -> Result<(), Refusal> {
        let is_handed_over = self.handed_over.is_some_and(|folder| path.starts_with(folder));
        if path.starts_with(self.record) && !is_handed_over {
            return Err(refusal(
                format!("{what} `{}` is part of the record", path.display()),
                "fetch artifacts with `ringfence artifact get`",
            ));
        }
        if IMAGE.iter().any(|tree| path.starts_with(tree)) {
            return Err(refusal(
                format!("{what} `{}` is part of the image, where nothing of it could be hidden", path.display()),
                "keep projects and data outside /usr",
            ));
        }
        match path == Path::new("/") || self.record.starts_with(path) || self.homes.iter().any(|home| home.starts_with(path)) {
            true => Err(refusal(
                format!("{what} `{}` holds a whole home or more than a project", path.display()),
                "name the folder of the one project or data set",
            )),
            false => Ok(()),
        }
    }

    fn folder(&mut self, shown_at: &str, name: &str, kind: &str, path: &Path, reveal: &[WorkspacePath]) -> Result<FolderView, NoViews> {
        let scan = scan(path, reveal, &mut |files| {
            self.progress.tell("files looked at", files);
            go_on(self.stop)
        });
        let scan = scan.map_err(|e| match (self.stop)() {
            true => NoViews::Interrupted,
            false => refusal(e.to_string(), "name a folder that you can read in full").into(),
        })?;
        let hidden = scan.hidden.iter().map(|h| HiddenReport { path: prefixed(shown_at, &h.path.escaped()), reason: h.reason.into() });
        self.views.hidden.extend(hidden);
        self.views.records.push(InputRecord {
            name: name.to_owned(),
            kind: kind.to_owned(),
            files: scan.files,
            bytes: scan.bytes,
            sha256: scan.listing_sha256.parse().unwrap_or_else(|_| Digest::zero()),
            digest_of: "listing".into(),
            hidden: scan.hidden.iter().map(|h| format!("{}: {}", h.path.escaped(), h.reason)).collect(),
        });
        self.view_or_copy(path, scan)
    }

    /// A view where every file has one owner that can appear as the agent; a private copy otherwise.
    fn view_or_copy(&mut self, path: &Path, scan: Scan) -> Result<FolderView, NoViews> {
        if let Some(owner) = self.owner(path, &scan) {
            return Ok(FolderView { path: path.to_owned(), owner, veil: scan.veil });
        }
        make_private(self.work)?;
        let copy = self.work.join(format!("copy-{}", self.views.records.len()));
        let copied = copy_tree(path, &copy, &scan.veil, self.identity, &mut |paths| {
            self.progress.tell("paths copied", paths);
            go_on(self.stop)
        });
        copied.map_err(|e| self.no_copy(&e, "make room, or name a smaller folder"))?;
        // What was hidden was not copied; what is shown in another form still is replaced.
        let veil = ringfence_isolation::Veil { hidden: Vec::new(), ..scan.veil };
        Ok(FolderView { path: copy, owner: None, veil })
    }

    /// Outer `None`: no view is possible. Inner `None`: no id map is needed.
    fn owner(&self, path: &Path, scan: &Scan) -> Option<Option<Owner>> {
        let is_only = |set: &std::collections::BTreeSet<u32>, id: u32| set.iter().eq([&id]);
        match self.identity {
            Identity::Single { uid, gid } => (is_only(&scan.uids, uid) && is_only(&scan.gids, gid)).then_some(None),
            Identity::Range { .. } => {
                let uid = scan.uids.first().copied().filter(|uid| is_only(&scan.uids, *uid))?;
                let owner = Owner { uid, gids: scan.gids.iter().copied().collect() };
                can_map_ids(path, &owner, self.identity).then_some(Some(owner))
            }
        }
    }
}

/// Long work goes on until the caller asks to stop.
fn go_on(stop: &dyn Fn() -> bool) -> std::io::Result<()> {
    if stop() { Err(std::io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

fn prefixed(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

fn make(folder: &Path) -> Result<(), Refusal> {
    created(folder, fs::DirBuilder::new().mode(0o755).create(folder))
}

/// The run's own folder, if it is not there yet.
fn make_private(folder: &Path) -> Result<(), Refusal> {
    created(folder, fs::DirBuilder::new().recursive(true).mode(0o700).create(folder))
}

fn created(folder: &Path, made: std::io::Result<()>) -> Result<(), Refusal> {
    made.map_err(|e| refusal(format!("make `{}`: {e}", folder.display()), "make room in RINGFENCE_HOME"))
}

/// The real path of something that must exist.
fn resolve(what: &str, path: &Path) -> Result<PathBuf, Refusal> {
    fs::canonicalize(path).map_err(|e| unreadable(what, path, &e))
}

fn unreadable(what: &str, path: &Path, error: &std::io::Error) -> Refusal {
    refusal(format!("{what} `{}` cannot be read: {error}", path.display()), "name a file or folder that exists and that you can read")
}

fn refusal(rule: String, hint: &str) -> Refusal {
    Refusal { rule, layer: Layer::Request, hint: hint.to_owned() }
}
