//! What a reviewer of a patch must not miss: the first line, which git skips.

use super::super::beneath::Entry;
use super::text;
use crate::text::OsText;

/// Names of one kind on the summary line; the rest are counted.
const NAMED: usize = 40;

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

impl PatchSummary {
    /// Notes a change that goes into the patch.
    pub(super) fn note(&mut self, path: &[u8], old: &Entry, new: &Entry) {
        let name = OsText::from(path);
        self.changed += 1;
        if matches!(new, Entry::Link { .. }) {
            self.links.push(name.clone());
        }
        let executable = |entry: &Entry| matches!(entry, Entry::File { is_executable: true, .. });
        if executable(old) != executable(new) && *new != Entry::Missing {
            self.modes.push(name.clone());
        }
        if *new != Entry::Missing && starts_programs(path) {
            self.starts_programs.push(name);
        }
    }

    /// One line that git takes for a comment. Names are quoted where they hold anything that could be taken for the line's own words.
    pub(super) fn line(&self) -> String {
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

/// Names whose content is run by opening, entering, building, testing or committing a folder.
fn starts_programs(path: &[u8]) -> bool {
    #[rustfmt::skip]
const NAMES: &[&str] = &[
    // shells, editors and debuggers
    ".envrc", ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".vimrc", ".exrc", ".nvimrc",
    ".gdbinit", ".lldbinit", ".inputrc", ".npmrc", ".yarnrc", ".yarnrc.yml",
    // agents
    ".mcp.json", "claude.md", "agents.md", "gemini.md", ".cursorrules", ".windsurfrules",
    // git and its hooks
    ".gitattributes", ".gitmodules", ".gitconfig", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml",
    // builds, tests and services
    "makefile", "gnumakefile", "justfile", "taskfile.yml", "taskfile.yaml", "rakefile", "gemfile", "cmakelists.txt", "meson.build",
    "configure", "build.rs", "cargo.toml", "package.json", "gulpfile.js", "gruntfile.js", "binding.gyp", "setup.py", "setup.cfg",
    "conftest.py", "sitecustomize.py", "usercustomize.py", "pyproject.toml", "tox.ini", "noxfile.py", "pytest.ini", "pom.xml",
    "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradlew", "mvnw", "flake.nix", "shell.nix",
    "default.nix", "build.zig", "build.bazel", "workspace.bazel", "dockerfile", "containerfile", "docker-compose.yml",
    "docker-compose.yaml", "compose.yml", "compose.yaml", "jenkinsfile", ".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml",
    "vagrantfile", "procfile",
];
    #[rustfmt::skip]
const FOLDERS: &[&str] = &[
    ".vscode", ".idea", ".codex", ".claude", ".cursor", ".devcontainer", ".husky", ".githooks", ".github", ".gitlab", ".circleci",
    ".cargo", ".config", "hooks", ".yarn",
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
