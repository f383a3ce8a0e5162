//! `changes.patch`: what a run changed in a project's view, in git's own format, so that `git apply` makes the same tree byte for byte.
//!
//! The first line, which git skips, says what a reviewer must not miss: links, mode changes, files that start programs, and what was left out.
//! Left out are `.git`, what the base's ignore rules ignore, and files that stand where something was hidden. No rename detection: a
//! rename is a removal and an addition, which nothing can misread.

mod changes;
mod names;
mod text;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::GoOn;
use super::beneath::{self, Entry};
use crate::text::OsText;

/// Names of one kind on the summary line; the rest are counted.
const NAMED: usize = 40;

/// What a patch is made from.
#[derive(Debug)]
pub struct PatchRequest<'a> {
    /// The project on the host (or its private copy).
    pub base: &'a Path,
    /// The workspace.
    pub workspace: BorrowedFd<'a>,
    /// The changes, where the view is a union; otherwise both trees are compared in full.
    pub changes: Option<BorrowedFd<'a>>,
    /// What was hidden from the view.
    pub hidden: &'a [OsText],
    /// Files that were shown in another form.
    pub replaced: &'a [(OsText, String)],
    /// A changed file may be at most this long, and so may the patch, bytes.
    pub most_bytes: u64,
    /// A file of the base that changed after this moment is not the one that the run saw.
    pub since: Option<SystemTime>,
}

/// What the summary line says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchSummary {
    /// Paths that are in the patch.
    pub changed: u64,
    /// Symbolic links made or changed.
    pub links: Vec<OsText>,
    /// Files that became executable or stopped to be.
    pub modes: Vec<OsText>,
    /// Files that start programs when a folder is opened, built or committed.
    pub starts_programs: Vec<OsText>,
    /// Changes left out because the base ignores them.
    pub ignored: u64,
    /// Changes left out because they are in `.git`.
    pub in_git: u64,
    /// Changes left out for another reason, with the reason.
    pub refused: Vec<(OsText, String)>,
}

/// Writes the patch. `go_on` is told the bytes written after each path, and can end the work.
pub fn write_patch(request: &PatchRequest<'_>, go_on: &mut GoOn<'_>) -> io::Result<(Vec<u8>, PatchSummary)> {
    let base = open(request.base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let ignores = Ignores::of(request.base);
    let mut summary = PatchSummary::default();
    let mut body = Vec::new();
    for (path, looked_into) in changes::changed_paths(request, base.as_fd())? {
        go_on(body.len() as u64)?;
        let sides = looked_into.and_then(|()| side_by_side(request, base.as_fd(), &path));
        if is_same(request, base.as_fd(), &path, &sides) || is_left_out(request, &ignores, &path, &mut summary) {
            continue;
        }
        match judge(request, base.as_fd(), &path, sides) {
            Ok((old, new)) => {
                note(&path, &old, &new, &mut summary);
                write_one(&path, &old, &new, &mut body)?;
            }
            Err(reason) => summary.refused.push((path.as_slice().into(), reason)),
        }
        if body.len() as u64 > request.most_bytes {
            return Err(io::Error::other(format!("is longer than the limit of {} bytes", request.most_bytes)));
        }
    }
    let mut patch = summary.line().into_bytes();
    patch.extend(body);
    Ok((patch, summary))
}

/// True if the base's file was changed on the host after the run began: a patch against it would undo that change.
fn is_newer(request: &PatchRequest<'_>, base: BorrowedFd<'_>, path: &[u8]) -> bool {
    let changed = beneath::stat(base, path).ok().and_then(|status| {
        let since_epoch = Duration::new(u64::try_from(status.st_ctime).ok()?, u32::try_from(status.st_ctime_nsec).ok()?);
        UNIX_EPOCH.checked_add(since_epoch)
    });
    request.since.zip(changed).is_some_and(|(since, changed)| changed > since)
}

fn reason(errno: Errno, most: u64) -> String {
    match errno {
        Errno::FBIG => format!("is longer than the limit of {most} bytes"),
        errno => format!("cannot be read: {}", io::Error::from(errno)),
    }
}

/// Folders are not part of a patch.
fn side_by_side(request: &PatchRequest<'_>, base: BorrowedFd<'_>, path: &[u8]) -> Result<(Entry, Entry), Errno> {
    let plain = |entry| if entry == Entry::Folder { Entry::Missing } else { entry };
    let shown = request.replaced.iter().find(|(p, _)| p.as_bytes() == path);
    let old = match shown {
        Some((_, text)) => Entry::File { is_executable: false, bytes: text.clone().into_bytes() },
        None => beneath::read(base, path, request.most_bytes)?,
    };
    Ok((plain(old), plain(beneath::read(request.workspace, path, request.most_bytes)?)))
}

/// Whether nothing changed. Files that are too long for a patch are compared where they lie.
fn is_same(request: &PatchRequest<'_>, base: BorrowedFd<'_>, path: &[u8], sides: &Result<(Entry, Entry), Errno>) -> bool {
    match sides {
        Ok((old, new)) => old == new,
        Err(Errno::FBIG) => beneath::are_same(base, request.workspace, path).unwrap_or(false),
        Err(_) => false,
    }
}

/// Whether a change is left out for its name, whatever it is, noting that in the summary.
fn is_left_out(request: &PatchRequest<'_>, ignores: &Ignores, path: &[u8], summary: &mut PatchSummary) -> bool {
    if path.split(|b| *b == b'/').any(names::is_git) {
        summary.in_git += 1;
        return true;
    }
    if request.hidden.iter().any(|hidden| changes::is_within(path, hidden.as_bytes())) {
        summary.refused.push((path.into(), "stands where a file was hidden".into()));
        return true;
    }
    if ignores.ignore(path) {
        summary.ignored += 1;
        return true;
    }
    false
}

/// The two sides, if a patch can hold them and git takes it.
fn judge(
    request: &PatchRequest<'_>,
    base: BorrowedFd<'_>,
    path: &[u8],
    sides: Result<(Entry, Entry), Errno>,
) -> Result<(Entry, Entry), String> {
    let (old, new) = sides.map_err(|errno| reason(errno, request.most_bytes))?;
    if is_newer(request, base, path) {
        return Err("was changed on the host while the run went on".into());
    }
    let is_either = |wanted: fn(&Entry) -> bool| wanted(&old) || wanted(&new);
    if is_either(|entry| matches!(entry, Entry::Special)) {
        return Err("is a socket, pipe or device".into());
    }
    if names::is_modules(path) && is_either(|entry| matches!(entry, Entry::Link { .. })) {
        return Err("is a link where git takes only a file".into());
    }
    Ok((old, new))
}

fn note(path: &[u8], old: &Entry, new: &Entry, summary: &mut PatchSummary) {
    let name = OsText::from(path);
    summary.changed += 1;
    if matches!(new, Entry::Link { .. }) {
        summary.links.push(name.clone());
    }
    let executable = |entry: &Entry| matches!(entry, Entry::File { is_executable: true, .. });
    if executable(old) != executable(new) && *new != Entry::Missing {
        summary.modes.push(name.clone());
    }
    if *new != Entry::Missing && starts_programs(path) {
        summary.starts_programs.push(name);
    }
}

/// Names whose content is run by opening, entering, building, testing or committing a folder.
fn starts_programs(path: &[u8]) -> bool {
    const NAMES: &[&str] = &[
        // shells, editors and debuggers
        ".envrc",
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".vimrc",
        ".exrc",
        ".nvimrc",
        ".gdbinit",
        ".lldbinit",
        ".inputrc",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        // agents
        ".mcp.json",
        "claude.md",
        "agents.md",
        "gemini.md",
        ".cursorrules",
        ".windsurfrules",
        // git and its hooks
        ".gitattributes",
        ".gitmodules",
        ".gitconfig",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        "lefthook.yaml",
        ".lefthook.yml",
        // builds, tests and services
        "makefile",
        "gnumakefile",
        "justfile",
        "taskfile.yml",
        "taskfile.yaml",
        "rakefile",
        "gemfile",
        "cmakelists.txt",
        "meson.build",
        "configure",
        "build.rs",
        "cargo.toml",
        "package.json",
        "gulpfile.js",
        "gruntfile.js",
        "binding.gyp",
        "setup.py",
        "setup.cfg",
        "conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "pyproject.toml",
        "tox.ini",
        "noxfile.py",
        "pytest.ini",
        "pom.xml",
        "build.gradle",
        "build.gradle.kts",
        "settings.gradle",
        "settings.gradle.kts",
        "gradlew",
        "mvnw",
        "flake.nix",
        "shell.nix",
        "default.nix",
        "build.zig",
        "build",
        "build.bazel",
        "workspace.bazel",
        "dockerfile",
        "containerfile",
        "docker-compose.yml",
        "docker-compose.yaml",
        "compose.yml",
        "compose.yaml",
        "jenkinsfile",
        ".gitlab-ci.yml",
        ".travis.yml",
        "azure-pipelines.yml",
        "vagrantfile",
        "procfile",
    ];
    const FOLDERS: &[&str] = &[
        ".vscode",
        ".idea",
        ".codex",
        ".claude",
        ".cursor",
        ".devcontainer",
        ".husky",
        ".githooks",
        ".github",
        ".gitlab",
        ".circleci",
        ".cargo",
        ".config",
        "hooks",
        ".yarn",
    ];
    const ENDINGS: &[&str] = &[".pth", ".mk", ".code-workspace", ".desktop", ".service"];
    const BEGINNINGS: &[&str] = &[
        "vite.config.",
        "webpack.config.",
        "rollup.config.",
        "jest.config.",
        "vitest.config.",
        "babel.config.",
        "eslint.config.",
        ".eslintrc",
    ];
    let parts: Vec<String> = path.split(|b| *b == b'/').map(|part| String::from_utf8_lossy(part).to_lowercase()).collect();
    let Some((name, folders)) = parts.split_last() else { return false };
    NAMES.contains(&name.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || folders.iter().any(|folder| FOLDERS.contains(&folder.as_str()))
}

impl PatchSummary {
    /// One line that git takes for a comment. Names are quoted where they hold anything that could be taken for the line's own words.
    fn line(&self) -> String {
        let list = |what: &str, names: &[OsText]| match names.len() {
            0 => String::new(),
            count => {
                let named: Vec<String> = names.iter().take(NAMED).map(text::plain_or_quoted).collect();
                let more = if count > NAMED { format!(", and {} more", count - NAMED) } else { String::new() };
                format!("; {what}: {}{more}", named.join(", "))
            }
        };
        let count = |what: &str, number: u64| if number > 0 { format!("; {what}: {number}") } else { String::new() };
        let refused: Vec<OsText> = self.refused.iter().map(|(path, _)| path.clone()).collect();
        format!(
            "ringfence changes: {} paths{}{}{}{}{}{}\n",
            self.changed,
            count("ignored and left out", self.ignored),
            count("in .git and left out", self.in_git),
            list("start programs", &self.starts_programs),
            list("links", &self.links),
            list("mode changes", &self.modes),
            list("refused", &refused),
        )
    }
}

/// Writes the change of one path; another kind of thing in its place is a removal and an addition.
fn write_one(path: &[u8], old: &Entry, new: &Entry, out: &mut Vec<u8>) -> io::Result<()> {
    match (text::mode(old), text::mode(new)) {
        (Some(before), Some(after)) if before / 0o10000 != after / 0o10000 => {
            text::write(path, old, &Entry::Missing, out)?;
            text::write(path, &Entry::Missing, new, out)
        }
        _ => text::write(path, old, new, out),
    }?;
    out.flush()
}

/// The base's ignore files, each for its own folder; the deepest that has an opinion decides, as in gitignore(5).
struct Ignores {
    by_folder: Vec<(Vec<u8>, Gitignore)>,
}

impl Ignores {
    fn of(base: &Path) -> Self {
        let mut by_folder = Vec::new();
        let mut waiting = vec![Vec::new()];
        while let Some(folder) = waiting.pop() {
            let full = base.join(OsText::from(folder.as_slice()).as_os_str());
            for entry in std::fs::read_dir(&full).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name == ".gitignore" {
                    by_folder.push((folder.clone(), matcher(&entry.path())));
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) && name != ".git" {
                    waiting.push(beneath::join(&folder, name.as_encoded_bytes()));
                }
            }
        }
        by_folder.push((Vec::new(), matcher(&base.join(".git/info/exclude"))));
        by_folder.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        Self { by_folder }
    }

    /// As in git, what is in an ignored folder stays ignored, whatever is said of it.
    fn ignore(&self, path: &[u8]) -> bool {
        let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
        folders.into_iter().any(|folder| self.ignores_one(folder, true)) || self.ignores_one(path, false)
    }

    fn ignores_one(&self, path: &[u8], is_folder: bool) -> bool {
        let inside = |folder: &[u8]| match folder {
            [] => Some(path),
            folder => path.strip_prefix(folder).and_then(|rest| rest.strip_prefix(b"/")),
        };
        let verdict = self.by_folder.iter().find_map(|(folder, rules)| {
            let relative = OsText::from(inside(folder)?);
            match rules.matched(relative.as_os_str(), is_folder) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        });
        verdict.unwrap_or(false)
    }
}

/// Rules that do not parse ignore nothing. As in git, a link is not followed; a pipe would keep us waiting.
fn matcher(file: &Path) -> Gitignore {
    // The paths asked about are relative to the file's folder already, so no root is to be cut off.
    let mut builder = GitignoreBuilder::new("/");
    if std::fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file()) {
        builder.add(file);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
