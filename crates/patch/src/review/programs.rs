//! Files that start programs: what opening, entering, building, testing or committing a folder reads and obeys.

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

/// Names whose content is run by opening, entering, building, testing or committing a folder.
pub fn starts_programs(path: &[u8]) -> bool {
    let parts: Vec<String> = path.split(|b| *b == b'/').map(|part| String::from_utf8_lossy(part).to_lowercase()).collect();
    let Some((name, folders)) = parts.split_last() else { return false };
    NAMES.contains(&name.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || folders.iter().any(|folder| FOLDERS.contains(&folder.as_str()))
}
