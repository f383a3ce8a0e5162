//! From what a person wrote to what the program runs on; every message about a bad profile, ceiling or agent comes from here.
//!
//! A field left out of a *profile* means nothing is allowed, and a profile that executes must state its limits. A field left out of a
//! *ceiling* or an *agent* bounds nothing: the layer says only what it narrows.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::capabilities::Capabilities;
use crate::choices::{Execution, PackageMode};
use crate::destination::Destination;
use crate::image_name::ImageName;
use crate::lattice::{Element, Set};
use crate::limits::{LimitKey, Limits};
use crate::names::text_type;
use crate::package_rule::PackageRule;
use crate::packages::Packages;
use crate::raw::{RawBound, RawImages, RawLimits, RawPackages, RawTiers, RawValue, Text};
use crate::tiers::LeastTiers;
use crate::user_name::UserName;

/// What is wrong in a profile, ceiling or agent file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {cause}")]
pub struct ProfileError {
    /// The file as the person named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub cause: String,
    /// How to mend it.
    pub fix: String,
}

/// The name of a profile: lower-case letters, digits and hyphens, at most 64.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProfileName(String);

impl ProfileName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProfileName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        match (1..=64).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with('-') {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("`{}` is not a profile name; write lower-case letters, digits and hyphens", text.escape_debug())),
        }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_type!(ProfileName: String);

/// A class of work, complete and checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: ProfileName,
    /// One line on what it is for.
    pub summary: String,
    /// Whom commands run as.
    pub user: UserName,
    /// What it allows at most.
    pub bound: Capabilities,
}

/// A layer that only narrows: the ceiling or an agent.
pub type Bound = Capabilities;

impl Profile {
    /// Reads a profile; `file` is used in messages only.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let located = Located { file, text };
        let raw: RawBound = located.read()?;
        let name =
            raw.name.as_ref().ok_or_else(|| located.at(&(0..0), "the profile has no `name`", "begin with `name = \"my-profile\"`"))?;
        let checked: ProfileName =
            name.as_ref().parse().map_err(|why: String| located.at(&name.span(), &why, "rename it, such as `name = \"my-profile\"`"))?;
        located.names_one_image(&raw)?;
        let bound = located.narrow(Capabilities::nothing(), &raw)?;
        located.names_no_exceptions(&raw)?;
        located.allows_where_credentials_go(&raw, &bound)?;
        located.states_its_limits(&bound)?;
        let user = located.user(&raw)?;
        Ok(Self { name: checked, summary: raw.summary.unwrap_or_default(), user, bound })
    }
}

/// Reads an agent's posture; `file` is used in messages only.
pub fn parse_bound(file: &str, text: &str) -> Result<Bound, ProfileError> {
    let located = Located { file, text };
    let raw = located.read()?;
    located.names_no_exceptions(&raw)?;
    located.bound(&raw)
}

/// Where messages point to.
pub(crate) struct Located<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Located<'_> {
    pub(crate) fn bound(&self, raw: &RawBound) -> Result<Bound, ProfileError> {
        match (&raw.name, &raw.user) {
            (Some(name), _) => Err(self.at(&name.span(), "only a profile has a `name`", "remove the line")),
            (None, Some(user)) => Err(self.at(&user.span(), "only a profile has a `user`", "remove the line")),
            (None, None) => self.narrow(Capabilities::unlimited(), raw),
        }
    }

    fn user(&self, raw: &RawBound) -> Result<UserName, ProfileError> {
        let Some(user) = &raw.user else { return Ok(UserName::default()) };
        user.as_ref().parse().map_err(|why: String| self.at(&user.span(), &why, "rename it, such as `user = \"user\"`"))
    }

    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, ProfileError> {
        toml::from_str(self.text).map_err(|error| {
            let cause = error.message().trim().replace('\n', "; ");
            let fix = match cause.contains("unknown field") {
                true => "remove the key, or write it as one of those named".to_owned(),
                false => "see `ringfence profile show data-analysis` for a complete example".to_owned(),
            };
            self.at(&error.span().unwrap_or(0..0), &cause, &fix)
        })
    }

    pub(crate) fn at(&self, span: &Range<usize>, cause: &str, fix: &str) -> ProfileError {
        let before = self.text.get(..span.start.min(self.text.len())).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ProfileError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            cause: cause.to_owned(),
            fix: fix.to_owned(),
        }
    }

    /// Lays what was written over `base`, which holds the meaning of what was not.
    fn narrow(&self, base: Capabilities, raw: &RawBound) -> Result<Capabilities, ProfileError> {
        let files = raw.files.clone().unwrap_or_default();
        let (process, grades) = (raw.process.clone().unwrap_or_default(), raw.grades.clone().unwrap_or_default());
        Ok(Capabilities {
            execution: raw.execution.unwrap_or(base.execution),
            image: self.images(raw, base.image)?,
            inputs: files.inputs.unwrap_or(base.inputs),
            project: files.project.unwrap_or(base.project),
            reveal: self.set(files.reveal.as_deref(), base.reveal)?,
            exports: self.set(files.exports.as_deref(), base.exports)?,
            promotions: self.set(allowed(raw.promotions.as_ref()), base.promotions)?,
            storage: files.storage.unwrap_or(base.storage),
            state: files.state.unwrap_or(base.state),
            environment: self.set(allowed(raw.environment.as_ref()), base.environment)?,
            network: self.set(raw.network.as_ref().and_then(|n| n.allow.as_deref()), base.network)?,
            wildcards: raw.network.as_ref().and_then(|n| n.wildcards).unwrap_or(base.wildcards),
            private: self.set(raw.network.as_ref().and_then(|n| n.private.as_deref()), base.private)?,
            credentials: self.set(allowed(raw.credentials.as_ref()), base.credentials)?,
            packages: self.packages(raw.packages.as_ref(), base.packages)?,
            tools: self.set(allowed(raw.tools.as_ref()), base.tools)?,
            spawn: process.spawn.unwrap_or(base.spawn),
            kernel: process.kernel.unwrap_or(base.kernel),
            tier: raw.tier.unwrap_or(base.tier),
            sensitivity: raw.sensitivity.unwrap_or(base.sensitivity),
            tiers: tiers(raw),
            limits: self.limits(raw.limits.as_ref())?,
            grades: crate::grades::Grades {
                memory: grades.memory.unwrap_or(base.grades.memory),
                cpu: grades.cpu.unwrap_or(base.grades.cpu),
                disk: grades.disk.unwrap_or(base.grades.disk),
            },
        })
    }

    /// What lies behind the operator's own walls is the operator's to open.
    pub(crate) fn names_no_exceptions(&self, raw: &RawBound) -> Result<(), ProfileError> {
        match raw.network.as_ref().and_then(|network| network.private.as_ref()) {
            Some(ranges) => Err(self.at(
                &ranges.first().map_or(0..0, Spanned::span),
                "`private` excepts addresses from the refused ranges, which only the operator can",
                "move it to [ceiling.network] in ringfence.toml",
            )),
            None => Ok(()),
        }
    }

    /// A credential for a place that cannot be reached is a mistake.
    fn allows_where_credentials_go(&self, raw: &RawBound, bound: &Capabilities) -> Result<(), ProfileError> {
        let (Set::Only(bindings), Some(written)) = (&bound.credentials, allowed(raw.credentials.as_ref())) else { return Ok(()) };
        let is_reached = |to: &Destination| match &bound.network {
            Set::All => true,
            Set::Only(listed) => listed.iter().any(|rule| rule.meet(to).is_some()),
        };
        let Some(lost) = bindings.iter().find(|binding| !is_reached(&binding.to)) else { return Ok(()) };
        let span = written.iter().find(|text| text.as_ref().starts_with(&format!("{}: ", lost.name))).map_or(0..0, Spanned::span);
        let cause = format!("credential `{}` is bound to `{}`, which [network] does not allow", lost.name, lost.to);
        Err(self.at(&span, &cause, &format!("add \"{}\" to `allow` under [network], or remove the credential", lost.to)))
    }

    fn packages(&self, raw: Option<&RawPackages>, base: Packages) -> Result<Packages, ProfileError> {
        let Some(raw) = raw else { return Ok(base) };
        let age = |text: &Text| text.as_ref().parse().map_err(|why: String| self.at(&text.span(), &why, "correct the value"));
        let packages = Packages {
            python: raw.python.unwrap_or(base.python),
            node: raw.node.unwrap_or(base.node),
            rust: raw.rust.unwrap_or(base.rust),
            allow: self.set(raw.allow.as_deref(), base.allow)?,
            minimum_age: raw.minimum_age.as_ref().map(age).transpose()?.unwrap_or(base.minimum_age),
            source_builds: raw.source_builds.unwrap_or(base.source_builds),
            install_scripts: raw.install_scripts.unwrap_or(base.install_scripts),
        };
        self.check_listed(raw.allow.as_deref().unwrap_or_default(), &packages)?;
        Ok(packages.with_open_names())
    }

    /// A list that its own layer does not heed is a mistake about what the layer allows.
    fn check_listed(&self, written: &[Text], packages: &Packages) -> Result<(), ProfileError> {
        for (text, rule) in written.iter().filter_map(|text| Some((text, text.as_ref().parse::<PackageRule>().ok()?))) {
            let (ecosystem, mode) = (rule.ecosystem(), packages.mode(rule.ecosystem()));
            if rule.is_any_name() {
                let fix = format!("write `{ecosystem} = \"open\"` if that is meant");
                return Err(self.at(&text.span(), &format!("`{rule}` would list every package there is"), &fix));
            }
            if mode != PackageMode::Allowlist {
                let cause = format!("`{rule}` is listed, but `{ecosystem}` is `{mode}`, which does not ask the list");
                return Err(self.at(&text.span(), &cause, &format!("write `{ecosystem} = \"allowlist\"`, or remove the entry")));
            }
        }
        Ok(())
    }

    fn set<T: Element + FromStr>(&self, written: Option<&[Text]>, base: Set<T>) -> Result<Set<T>, ProfileError>
    where
        T::Err: fmt::Display,
    {
        let Some(written) = written else { return Ok(base) };
        let read = |text: &Text| {
            text.as_ref().parse().map_err(|why: T::Err| self.at(&text.span(), &why.to_string(), "correct the entry, or remove it"))
        };
        Ok(Set::only(written.iter().map(read).collect::<Result<Vec<T>, _>>()?))
    }

    fn images(&self, raw: &RawBound, base: Set<ImageName>) -> Result<Set<ImageName>, ProfileError> {
        let Some(written) = &raw.image else { return Ok(base) };
        let names = match written.as_ref() {
            RawImages::One(name) => std::slice::from_ref(name),
            RawImages::Several(names) => names.as_slice(),
        };
        let read: Result<Vec<ImageName>, _> = names.iter().map(|name| name.parse()).collect();
        read.map(Set::only).map_err(|why| self.at(&written.span(), &why.to_string(), "see `ringfence image ls` for those that there are"))
    }

    /// A profile says what its runs see; a list would leave that to chance.
    fn names_one_image(&self, raw: &RawBound) -> Result<(), ProfileError> {
        match &raw.image {
            Some(written) if matches!(written.as_ref(), RawImages::Several(_)) => {
                Err(self.at(&written.span(), "a profile names one image, not a list", "write it as text, such as `image = \"host\"`"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn limits(&self, raw: Option<&RawLimits>) -> Result<Limits, ProfileError> {
        let mut limits = Limits::default();
        for (key, value) in raw.into_iter().flat_map(RawLimits::written) {
            let text = match value.as_ref() {
                RawValue::Number(number) => number.to_string(),
                RawValue::Text(text) => text.clone(),
            };
            let read = key.parse_value(&text);
            let value = read.map_err(|why| self.at(&value.span(), &why.to_string(), "correct the value"))?;
            limits.set(key, value);
        }
        Ok(limits)
    }

    /// A profile that executes says how much: nothing is unlimited by omission. (`cpus` alone may be left out: every processor. Without a network there is
    /// nothing to limit of it.)
    fn states_its_limits(&self, bound: &Capabilities) -> Result<(), ProfileError> {
        let has_network = !bound.network.is_none() || bound.packages.most() > PackageMode::None;
        let is_needed = |key: LimitKey| match key {
            LimitKey::Cpus => false,
            LimitKey::NetworkBytes | LimitKey::NetworkRequests => has_network,
            LimitKey::Wall
            | LimitKey::Cpu
            | LimitKey::Memory
            | LimitKey::Processes
            | LimitKey::Output
            | LimitKey::Disk
            | LimitKey::Files
            | LimitKey::OpenFiles
            | LimitKey::Artifacts
            | LimitKey::ArtifactBytes => true,
        };
        let is_missing = |key: &LimitKey| is_needed(*key) && bound.limits.get(*key).is_none();
        let missing: Vec<&str> = LimitKey::ALL.iter().filter(|k| is_missing(k)).map(|k| k.name()).collect();
        match bound.execution == Execution::Commands && !missing.is_empty() {
            true => Err(self.at(
                &(0..0),
                &format!("a profile that executes commands must state every limit; [limits] lacks {}", missing.join(", ")),
                "add them under [limits]; `ringfence profile show data-analysis` has sensible values",
            )),
            false => Ok(()),
        }
    }
}

fn tiers(raw: &RawBound) -> LeastTiers {
    let mut tiers = LeastTiers::default();
    raw.tiers.iter().flat_map(RawTiers::written).for_each(|(sensitivity, tier)| tiers.set(sensitivity, tier));
    tiers
}

fn allowed(names: Option<&crate::raw::RawNames>) -> Option<&[Text]> {
    names.and_then(|n| n.allow.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> ProfileError {
        Profile::parse("p.toml", text).unwrap_err()
    }

    #[test]
    fn a_bad_profile_is_refused_with_its_place() {
        let unknown = error("name = \"x\"\n[limits]\nwal = \"1s\"\n");
        assert_eq!((unknown.line, unknown.column), (3, 1));
        assert!(unknown.cause.contains("unknown field `wal`"), "{unknown}");
        let unit = error("name = \"x\"\n[limits]\nmemory = \"1e9\"\n");
        assert_eq!((unit.line, unit.column), (3, 10));
        assert!(unit.cause.contains("256MiB"), "{unit}");
        assert!(error("name = \"X y\"").cause.contains("not a profile name"));
        assert!(error("summary = \"x\"").cause.contains("no `name`"));
        assert!(error("name = \"x\"\nexecution = \"commands\"").cause.contains("lacks wall"));
        assert!(error("name = \"x\"\n[network]\nallow = [\"*.com:443\"]").cause.contains("too wide"));
        assert!(error("name = ").line >= 1);
        let rule = error("name = \"x\"\n[packages]\npython = \"allowlist\"\nallow = [\n  \"python:x>=one\",\n]\n");
        assert_eq!((rule.line, rule.column), (5, 3));
        assert!(rule.cause.contains("not a comparison of python versions"), "{rule}");
        let unheeded = error("name = \"x\"\n[packages]\npython = \"open\"\nallow = [\"python:x\"]\n");
        assert!(unheeded.cause.contains("`python` is `open`") && unheeded.fix.contains("allowlist"), "{unheeded:?}");
        assert!(error("name = \"x\"\n[packages]\nallow = [\"python:*\"]\n").cause.contains("every package"));
        assert!(error("name = \"x\"\n[packages]\nminimum-age = \"72\"\n").cause.contains("`72h`"));
    }

    #[test]
    fn what_is_left_out_differs_by_layer() {
        assert_eq!(parse_bound("c", "").unwrap(), Capabilities::unlimited());
        assert_eq!(Profile::parse("p", "name = \"x\"").unwrap().bound, Capabilities::nothing());
    }
}
