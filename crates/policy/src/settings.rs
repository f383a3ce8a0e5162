//! `ringfence.toml` as a whole: the ceiling, the targets, and who decides about agents. Every message about a bad target comes from here.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use toml::Spanned;

use crate::artifact_kind::ArtifactKind;
use crate::lattice::Set;
use crate::limits::scaled;
use crate::most_kept::{MostKept, most_kept};
use crate::plain_name::{GroupName, PlainNameError, TargetName};
use crate::profile::{Bound, Located, ProfileError, ProfileName};
use crate::raw::{RawSettings, Text};
use crate::raw_target::{RawCheck, RawConsent, RawTarget, RawTargetKind};
use crate::target::{Consent, Place, Target};

/// What the operator has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSettings {
    /// The bound on every run, unlimited where there is none.
    pub ceiling: Bound,
    /// Where artifacts can be promoted to.
    pub targets: BTreeMap<TargetName, Target>,
    /// Who decides about new versions of agents.
    pub agents: Consent,
    /// The profile of each template, by which clients of E2B ask for a sandbox.
    pub templates: BTreeMap<String, String>,
    /// How much a tenant of a server may keep.
    pub state: MostKept,
}

/// Templates that there are without a word of the operator's, and their profile.
const TEMPLATES: &[(&str, &str)] = &[("base", "base"), ("code-interpreter-v1", "base")];

/// Files that steer a build or a pipeline: their change is asked for separately unless the target says otherwise.
const PROTECTED: &[&str] = &[
    ".github/**",
    ".gitlab/**",
    ".gitlab-ci.yml",
    ".circleci/**",
    ".buildkite/**",
    ".woodpecker/**",
    ".drone.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "Jenkinsfile",
    "**/CODEOWNERS",
    ".ci/**",
    "ci/**",
    ".gitignore",
    "**/.gitignore",
    // What says how a build or a check goes.
    "**/Makefile",
    "**/makefile",
    "**/GNUmakefile",
    "**/package.json",
    "**/pyproject.toml",
    "**/setup.cfg",
    "**/setup.py",
    "**/tox.ini",
    "**/pytest.ini",
    "**/noxfile.py",
    "**/jest.config.*",
    "**/vitest.config.*",
    "**/.mocharc*",
    "**/Rakefile",
    "**/pom.xml",
    "**/build.gradle*",
    "**/CMakeLists.txt",
    "**/build.rs",
    "**/.cargo/**",
    "**/justfile",
    "**/Taskfile.y*ml",
    "**/configure",
    "**/meson.build",
    "**/gradlew*",
    "**/mvnw*",
    "**/Dockerfile",
    ".pre-commit-config.yaml",
    ".husky/**",
    "**/vite.config.*",
    "**/rust-toolchain*",
];

/// Where tests usually are.
const TESTS: &[&str] = &[
    "tests/**",
    "test/**",
    "**/tests/**",
    "**/test/**",
    "spec/**",
    "**/__tests__/**",
    "**/test_*",
    "**/*_test.*",
    "**/*.test.*",
    "**/*.spec.*",
    "**/conftest.py",
];

const DAY: u64 = 24 * 3_600_000;
const TIMES: &[(&str, u64)] = &[("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", DAY)];
/// No approval stands open, and none stands approved, for longer.
const LONGEST: u64 = 90 * DAY;

/// Reads settings; `file` is used in messages only.
pub fn parse_settings(file: &str, text: &str) -> Result<OperatorSettings, ProfileError> {
    let located = Located { file, text };
    let settings: RawSettings = located.read()?;
    let mut ceiling = located.bound(&settings.ceiling.unwrap_or_default())?;
    if ceiling.private == Set::All {
        ceiling.private = Set::none();
    }
    let mut targets = BTreeMap::new();
    for (name, raw) in &settings.targets {
        let target = Reader { located: &located, name, raw }.target()?;
        targets.insert(target.name.clone(), target);
    }
    let agents = consent_about_agents(&located, &settings.agents.unwrap_or_default())?;
    let shipped = TEMPLATES.iter().map(|(template, profile)| ((*template).to_owned(), (*profile).to_owned()));
    let state = most_kept(&located, &settings.state.unwrap_or_default())?;
    Ok(OperatorSettings { ceiling, targets, agents, templates: shipped.chain(settings.templates).collect(), state })
}

fn consent_about_agents(located: &Located<'_>, raw: &RawConsent) -> Result<Consent, ProfileError> {
    Ok(Consent {
        quorum: located.quorum(raw.quorum.as_ref())?.unwrap_or(1),
        groups: located.groups(raw.groups.as_ref())?.unwrap_or_default(),
        exclude_owner: raw.exclude_owner,
        decide_within_ms: located.time(raw.decide_within.as_ref())?.unwrap_or(7 * DAY),
        execute_within_ms: DAY,
    })
}

/// One target on its way from text.
struct Reader<'a> {
    located: &'a Located<'a>,
    name: &'a str,
    raw: &'a RawTarget,
}

impl Reader<'_> {
    fn target(&self) -> Result<Target, ProfileError> {
        let raw = self.raw;
        let name: TargetName =
            self.name.parse().map_err(|why: PlainNameError| self.wrong(&why.to_string(), "rename it, such as [targets.main]"))?;
        let consent = self.consent()?;
        let check_profile = match &raw.check_profile {
            Some(text) => self.parsed(text)?,
            None => self.usual_profile()?,
        };
        Ok(Target {
            name,
            place: self.place()?,
            accepts: self.accepts()?,
            profiles: self.list(raw.profiles.as_deref(), &[])?.into_iter().collect::<BTreeSet<ProfileName>>(),
            checks: self.checks()?,
            check_profile,
            tests: self.list(raw.tests.as_deref(), self.usual(TESTS))?,
            protected: self.list(raw.protected.as_deref(), self.usual(PROTECTED))?,
            secrets_allowed: self.list(raw.secrets_allowed.as_deref(), &[])?,
            protected_consent: Consent {
                quorum: self.located.quorum(raw.protected_quorum.as_ref())?.unwrap_or(consent.quorum),
                groups: self.located.groups(raw.protected_groups.as_ref())?.unwrap_or_else(|| consent.groups.clone()),
                ..consent
            },
            consent,
            max_file_bytes: self.max_file()?,
        })
    }

    fn wrong(&self, cause: &str, fix: &str) -> ProfileError {
        self.located.at(&self.raw.kind.span(), &format!("target `{}`: {cause}", self.name.escape_debug()), fix)
    }

    fn parsed<T: FromStr>(&self, text: &Text) -> Result<T, ProfileError>
    where
        T::Err: std::fmt::Display,
    {
        text.as_ref().parse().map_err(|why: T::Err| self.located.at(&text.span(), &why.to_string(), "correct the entry, or remove it"))
    }

    /// What was written, or what is usual.
    fn list<T: FromStr>(&self, written: Option<&[Text]>, usual: &[&str]) -> Result<Vec<T>, ProfileError>
    where
        T::Err: std::fmt::Display,
    {
        match written {
            Some(written) => written.iter().map(|text| self.parsed(text)).collect(),
            None => Ok(usual.iter().filter_map(|text| text.parse().ok()).collect()),
        }
    }

    /// Where projects usually have something, a folder of reports has not.
    fn usual<'g>(&self, globs: &'g [&'g str]) -> &'g [&'g str] {
        match self.raw.kind.as_ref() {
            RawTargetKind::Git => globs,
            RawTargetKind::Directory => &[],
        }
    }

    fn usual_profile(&self) -> Result<ProfileName, ProfileError> {
        let name = match self.raw.kind.as_ref() {
            RawTargetKind::Git => "code-change",
            RawTargetKind::Directory => "data-analysis",
        };
        name.parse().map_err(|why: String| self.wrong(&why, "name a `check-profile`"))
    }

    fn place(&self) -> Result<Place, ProfileError> {
        let raw = self.raw;
        match (raw.kind.as_ref(), &raw.repository, &raw.branch, &raw.folder) {
            (RawTargetKind::Git, Some(repository), Some(branch), None) => {
                Ok(Place::Git { repository: self.repository(repository)?, branch: self.branch(branch)? })
            }
            (RawTargetKind::Git, ..) => Err(self.wrong(
                "`git` needs `repository` and `branch`, and no `folder`",
                "write `repository = \"/srv/git/app.git\"` and `branch = \"main\"`",
            )),
            (RawTargetKind::Directory, None, None, Some(folder)) => Ok(Place::Directory { folder: self.absolute(folder)? }),
            (RawTargetKind::Directory, ..) => {
                Err(self.wrong("`directory` needs `folder`, and neither `repository` nor `branch`", "write `folder = \"/srv/reports\"`"))
            }
        }
    }

    /// A relative path would depend on where somebody stands; a leading hyphen would be an option of git's, and `ext::` runs a command.
    fn repository(&self, text: &Text) -> Result<String, ProfileError> {
        let value = text.as_ref().as_str();
        let is_url = ["https://", "ssh://", "git://", "http://", "file:///"].iter().any(|scheme| value.starts_with(scheme));
        // A password would stand in what is shown and in every receipt.
        let host = value.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        let has_password = host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':') || value.starts_with("http"));
        match (value.starts_with('/') || is_url) && !value.contains(char::is_control) && !has_password {
            true => Ok(value.to_owned()),
            false => Err(self.located.at(
                &text.span(),
                &if has_password {
                    "this is not where a repository can be: it holds a password".to_owned()
                } else {
                    format!("`{}` is not where a repository can be", value.escape_debug())
                },
                "write an absolute path, or a URL with https, ssh, git or file, without a password",
            )),
        }
    }

    /// By the rules of git-check-ref-format, and nothing that could be taken for an option.
    fn branch(&self, text: &Text) -> Result<String, ProfileError> {
        let value = text.as_ref().as_str();
        let is_odd = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
        let is_bad_part = |part: &str| part.is_empty() || part.starts_with(['.', '-']) || part.ends_with(".lock") || part.ends_with('.');
        let is_bad =
            value.contains(is_odd) || value.contains("..") || value.contains("@{") || value == "@" || value.split('/').any(is_bad_part);
        match is_bad || value.starts_with("refs/") {
            false => Ok(value.to_owned()),
            true => Err(self.located.at(
                &text.span(),
                &format!("`{}` is not the name of a branch", value.escape_debug()),
                "write the branch alone, such as `main`",
            )),
        }
    }

    fn absolute(&self, text: &Text) -> Result<String, ProfileError> {
        let value = text.as_ref().as_str();
        let has_bad_part = value.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."));
        match value.starts_with('/') && !has_bad_part && !value.contains('\0') {
            true => Ok(value.to_owned()),
            false => Err(self.located.at(
                &text.span(),
                &format!("`{}` is not an absolute path", value.escape_debug()),
                "write it from the root, without `.`, `..` or a `/` at its end",
            )),
        }
    }

    fn accepts(&self) -> Result<BTreeSet<ArtifactKind>, ProfileError> {
        let is_git = *self.raw.kind.as_ref() == RawTargetKind::Git;
        let usual = if is_git { &["patch"][..] } else { &["report", "image", "notebook", "data-set"][..] };
        let kinds: BTreeSet<ArtifactKind> = self.list(self.raw.accepts.as_deref(), usual)?.into_iter().collect();
        if kinds.is_empty() {
            return Err(self.wrong("it accepts nothing", "name a kind, or remove the target"));
        }
        match is_git && kinds != BTreeSet::from([ArtifactKind::Patch]) {
            true => Err(self.wrong("a branch takes patches alone", "write `accepts = [\"patch\"]`, or leave it out")),
            false => Ok(kinds),
        }
    }

    fn checks(&self) -> Result<Vec<Vec<String>>, ProfileError> {
        let Some(written) = &self.raw.checks else { return Ok(Vec::new()) };
        let wrong = || self.located.at(&written.span(), "a check is empty", "write a line for a shell, or a program with its arguments");
        let check = |check: &RawCheck| match check {
            RawCheck::Line(line) if line.trim().is_empty() => Err(wrong()),
            RawCheck::Line(line) => Ok(vec!["sh".to_owned(), "-c".to_owned(), line.clone()]),
            RawCheck::Program(words) if words.first().is_none_or(|program| program.is_empty()) => Err(wrong()),
            RawCheck::Program(words) => Ok(words.clone()),
        };
        written.as_ref().iter().map(check).collect()
    }

    fn consent(&self) -> Result<Consent, ProfileError> {
        Ok(Consent {
            quorum: self.located.quorum(self.raw.quorum.as_ref())?.unwrap_or(1),
            groups: self.located.groups(self.raw.groups.as_ref())?.unwrap_or_default(),
            exclude_owner: self.raw.exclude_owner,
            decide_within_ms: self.located.time(self.raw.decide_within.as_ref())?.unwrap_or(DAY),
            execute_within_ms: self.located.time(self.raw.execute_within.as_ref())?.unwrap_or(3_600_000),
        })
    }

    fn max_file(&self) -> Result<u64, ProfileError> {
        const UNITS: &[(&str, u64)] = &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
        let Some(text) = &self.raw.max_file else { return Ok(10 << 20) };
        let value = scaled(text.as_ref(), UNITS).filter(|bytes| (1..=1 << 30).contains(bytes));
        value.ok_or_else(|| self.located.at(&text.span(), "is not a size up to 1 GiB", "write it such as `10MiB`"))
    }
}

impl Located<'_> {
    fn quorum(&self, written: Option<&Spanned<u32>>) -> Result<Option<u32>, ProfileError> {
        match written {
            Some(number) if !(1..=20).contains(number.as_ref()) => {
                Err(self.at(&number.span(), "a quorum is from 1 to 20 persons", "write how many different persons must approve"))
            }
            Some(number) => Ok(Some(*number.as_ref())),
            None => Ok(None),
        }
    }

    fn groups(&self, written: Option<&Vec<Text>>) -> Result<Option<BTreeSet<GroupName>>, ProfileError> {
        let Some(written) = written else { return Ok(None) };
        if written.is_empty() {
            return Err(self.at(
                &(0..0),
                "`groups` is an empty list: nobody could approve",
                "name a group, or leave it out for any person",
            ));
        }
        let read = |text: &Text| {
            text.as_ref().parse().map_err(|why: PlainNameError| self.at(&text.span(), &why.to_string(), "correct the entry, or remove it"))
        };
        written.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    fn time(&self, written: Option<&Text>) -> Result<Option<u64>, ProfileError> {
        let Some(text) = written else { return Ok(None) };
        let value = scaled(text.as_ref(), TIMES).filter(|time| (1000..=LONGEST).contains(time));
        value.map(Some).ok_or_else(|| self.at(&text.span(), "is not a time from 1s to 90d", "write it such as `24h`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Result<Target, ProfileError> {
        parse_settings("s", &format!("[targets.main]\n{text}")).map(|settings| settings.targets.into_values().next().unwrap())
    }

    const GIT: &str = "kind = \"git\"\nrepository = \"/srv/app.git\"\nbranch = \"main\"\n";

    #[test]
    fn a_target_that_says_little_is_careful() {
        let target = target(GIT).unwrap();
        assert_eq!((target.consent.quorum, target.consent.to_string().as_str()), (1, "1 of any person"));
        assert!(target.takes(ArtifactKind::Patch, "code-change") && !target.takes(ArtifactKind::Report, "code-change"));
        assert!(
            target.is_protected(b".github/workflows/x.yml") && target.is_protected(b"Jenkinsfile") && !target.is_protected(b"src/a.py")
        );
        assert!(target.is_test(b"tests/test_a.py") && target.is_test(b"pkg/test_a.py") && !target.is_test(b"src/attest.py"));
        assert_eq!((target.consent.decide_within_ms, target.consent.execute_within_ms), (DAY, 3_600_000));
    }

    #[test]
    fn a_bad_target_is_refused_with_its_place() {
        let cases = [
            ("kind = \"git\"\nrepository = \"/x\"\n", "needs `repository` and `branch`"),
            ("kind = \"git\"\nrepository = \"ext::sh -c x\"\nbranch = \"main\"\n", "not where a repository can be"),
            ("kind = \"git\"\nrepository = \"-o/x\"\nbranch = \"main\"\n", "not where a repository can be"),
            ("kind = \"git\"\nrepository = \"https://me:pw@example.com/x\"\nbranch = \"main\"\n", "not where a repository can be"),
            ("kind = \"git\"\nrepository = \"../x\"\nbranch = \"main\"\n", "not where a repository can be"),
            ("kind = \"git\"\nrepository = \"/x\"\nbranch = \"-f\"\n", "not the name of a branch"),
            ("kind = \"git\"\nrepository = \"/x\"\nbranch = \"a..b\"\n", "not the name of a branch"),
            ("kind = \"git\"\nrepository = \"/x\"\nbranch = \"refs/heads/a\"\n", "not the name of a branch"),
            ("kind = \"git\"\nrepository = \"/x\"\nbranch = \"main\"\naccepts = [\"report\"]\n", "takes patches alone"),
            ("kind = \"directory\"\nfolder = \"reports\"\n", "not an absolute path"),
            ("kind = \"directory\"\nfolder = \"/srv/../etc\"\n", "not an absolute path"),
            ("kind = \"directory\"\nfolder = \"/srv\"\naccepts = []\n", "accepts nothing"),
            ("kind = \"directory\"\nfolder = \"/srv\"\ngroups = []\n", "nobody could approve"),
            ("kind = \"directory\"\nfolder = \"/srv\"\nquorum = 0\n", "quorum is from 1"),
            ("kind = \"directory\"\nfolder = \"/srv\"\nchecks = [\"\"]\n", "a check is empty"),
            ("kind = \"directory\"\nfolder = \"/srv\"\ndecide-within = \"1y\"\n", "not a time"),
            ("kind = \"ftp\"\n", "unknown variant"),
        ];
        for (text, cause) in cases {
            let error = target(text).unwrap_err();
            assert!(error.cause.contains(cause) && error.line >= 1 && !error.fix.is_empty(), "{text}: {error:?}");
        }
        assert!(parse_settings("s", "[targets.\"A b\"]\nkind = \"git\"\n").unwrap_err().cause.contains("not the name of a target"));
    }
}
