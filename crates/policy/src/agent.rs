//! An agent as a person submits it, in TOML: what it is for, who answers for it, which classes of work it may run and its bound. Every message about a
//! bad agent file comes from here.
//!
//! What was written is kept in one canonical form, so that a change of spaces or comments is no change of the agent, and what was approved can be digested
//! and read again. The bound stays as it was written: what it does not name is as in the profile, also for what later versions can name.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};

use crate::date::Date;
use crate::plain_name::{AgentId, GroupName, PersonName};
use crate::profile::{Bound, Located, ProfileError, ProfileName};
use crate::raw::{RawBound, Text};

/// The profiles of an agent that may run any.
const ANY: &str = "*";
/// What helps whoever does not know the form.
const EXAMPLE: &str = "see docs/agents.md for a complete example";

/// An agent as written.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RawAgent {
    /// The agent's name: lower-case letters, digits, `.`, `-` and `_`, at most 64.
    #[schemars(with = "String")]
    id: Text,
    /// What people call it, in one line.
    #[schemars(with = "String")]
    name: Text,
    /// What it is for, in one line.
    #[schemars(with = "String")]
    purpose: Text,
    /// The registered person who answers for it.
    #[schemars(with = "String")]
    owner: Text,
    /// The team that it belongs to.
    #[schemars(with = "String")]
    team: Text,
    /// Names of the profiles that it may run.
    #[schemars(with = "Vec<String>")]
    profiles: Spanned<Vec<Text>>,
    /// The last day on which it runs without being submitted again: `YYYY-MM-DD`.
    #[schemars(with = "String")]
    review_by: Option<Spanned<Value>>,
    /// What it may do at most, in the form of a ceiling; what is left out is as in the profile.
    bound: Option<RawBound>,
}

/// Which profiles an agent may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentProfiles {
    /// Any: the local agent's alone.
    All,
    /// These.
    Only(BTreeSet<ProfileName>),
}

impl AgentProfiles {
    /// True if a profile of that name is among them.
    pub fn contains(&self, name: &ProfileName) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }

    /// Those that are named.
    pub fn named(&self) -> impl Iterator<Item = &ProfileName> {
        match self {
            Self::All => None,
            Self::Only(names) => Some(names.iter()),
        }
        .into_iter()
        .flatten()
    }
}

impl fmt::Display for AgentProfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("any"),
            Self::Only(names) => f.write_str(&names.iter().map(ProfileName::as_str).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// An agent, complete and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRecord {
    /// Its name.
    pub id: AgentId,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// Who answers for it.
    pub owner: PersonName,
    /// The team that it belongs to.
    pub team: GroupName,
    /// Which profiles it may run.
    pub profiles: AgentProfiles,
    /// The last day on which it runs. The local agent alone has none.
    pub review_by: Option<Date>,
    /// What it may do at most.
    pub bound: Bound,
    text: String,
}

impl AgentRecord {
    /// Reads an agent; `file` is used in messages only.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let located = Located { file, text };
        let raw: RawAgent = located.read().map_err(|error| match error.cause.starts_with("missing field") {
            true => ProfileError { cause: error.cause.replacen("missing field", "the agent has no", 1), fix: EXAMPLE.into(), ..error },
            false => error,
        })?;
        let id: AgentId = located.parsed(&raw.id, "rename it, such as `id = \"report-writer\"`")?;
        let bound = raw.bound.unwrap_or_default();
        located.names_no_exceptions(&bound)?;
        let mut record = Self {
            name: located.line(&raw.name, 100)?,
            purpose: located.line(&raw.purpose, 500)?,
            owner: located.parsed(&raw.owner, "name a registered person: see `ringfence person ls`")?,
            team: located.parsed(&raw.team, "such as `team = \"data\"`")?,
            profiles: located.profiles(&raw.profiles, &id)?,
            review_by: located.review_by(raw.review_by.as_ref(), &id)?,
            bound: located.bound(&bound)?,
            id,
            text: String::new(),
        };
        record.text = record.canonical(text).map_err(|cause| located.at(&(0..0), &cause, EXAMPLE))?;
        Ok(record)
    }

    /// The local agent: any profile, no bound of its own, owned by whoever sits here.
    pub fn local(owner: &PersonName) -> Result<Self, ProfileError> {
        let text = format!(
            "id = \"{}\"\nname = \"the local agent\"\npurpose = \"what is started by hand on this machine\"\nowner = \"{owner}\"\nteam = \"local\"\n\
             profiles = [\"{ANY}\"]\n",
            AgentId::local()
        );
        Self::parse("me.toml", &text)
    }

    /// The record in its canonical form. Read again it is the same record.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn canonical(&self, text: &str) -> Result<String, String> {
        let written: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let profiles = match &self.profiles {
            AgentProfiles::All => vec![ANY],
            AgentProfiles::Only(names) => names.iter().map(ProfileName::as_str).collect(),
        };
        let canonical = Canonical {
            id: self.id.as_str(),
            name: &self.name,
            purpose: &self.purpose,
            owner: self.owner.as_str(),
            team: self.team.as_str(),
            profiles,
            review_by: self.review_by.map(|date| date.to_string()),
            bound: written.get("bound").cloned().map(sorted).filter(says_something),
        };
        toml::to_string(&canonical).map_err(|error| error.to_string())
    }
}

/// The form in which an agent is kept.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Canonical<'a> {
    id: &'a str,
    name: &'a str,
    purpose: &'a str,
    owner: &'a str,
    team: &'a str,
    profiles: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    review_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Value>,
}

/// Keys in their order; tables that say nothing are left out. (A list that is empty says much.)
fn sorted(value: Value) -> Value {
    match value {
        Value::Table(table) => {
            let mut pairs: Vec<(String, Value)> = table.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            pairs.retain(|(_, value)| says_something(value));
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Table(pairs.into_iter().collect())
        }
        Value::Array(_) | Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => value,
    }
}

fn says_something(value: &Value) -> bool {
    value.as_table().is_none_or(|table| !table.is_empty())
}

impl Located<'_> {
    fn parsed<T: FromStr>(&self, text: &Text, fix: &str) -> Result<T, ProfileError>
    where
        T::Err: fmt::Display,
    {
        text.as_ref().parse().map_err(|why: T::Err| self.at(&text.span(), &why.to_string(), fix))
    }

    /// Something for people to read: one line that shows what it says.
    fn line(&self, text: &Text, most: usize) -> Result<String, ProfileError> {
        let line = text.as_ref().trim();
        let (is_plain, length) = (!line.chars().any(misleads), line.chars().count());
        match is_plain && (1..=most).contains(&length) {
            true => Ok(line.to_owned()),
            false => {
                let cause = format!(
                    "is not a line of at most {most} characters, none of which controls a terminal or turns the direction of reading"
                );
                Err(self.at(&text.span(), &cause, "write it plainly, in one line"))
            }
        }
    }

    fn profiles(&self, written: &Spanned<Vec<Text>>, id: &AgentId) -> Result<AgentProfiles, ProfileError> {
        let fix = "such as `profiles = [\"data-analysis\"]`; see `ringfence profile ls`";
        match written.as_ref().as_slice() {
            [] => Err(self.at(&written.span(), "`profiles` is empty: the agent could run nothing", fix)),
            [any] if any.as_ref() == ANY && id.is_local() => Ok(AgentProfiles::All),
            texts if texts.iter().any(|text| text.as_ref() == ANY) => {
                Err(self.at(&written.span(), &format!("only the local agent `{}` may run any profile", AgentId::local()), fix))
            }
            texts => texts.iter().map(|text| self.parsed(text, fix)).collect::<Result<_, _>>().map(AgentProfiles::Only),
        }
    }

    fn review_by(&self, written: Option<&Spanned<Value>>, id: &AgentId) -> Result<Option<Date>, ProfileError> {
        let fix = "such as `review-by = \"2027-01-31\"`";
        let Some(written) = written else {
            return match id.is_local() {
                true => Ok(None),
                false => Err(self.at(&(0..0), "the agent has no `review-by`", fix)),
            };
        };
        let text = written.as_ref().as_str().map_or_else(|| written.as_ref().to_string(), str::to_owned);
        text.parse().map(Some).map_err(|why: crate::date::DateError| self.at(&written.span(), &why.to_string(), fix))
    }
}

/// Characters that would let a text show something else than it says.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "id = \"report-writer\"\nname = \"Report writer\"\npurpose = \"weekly reports\"\nowner = \"anna\"\nteam = \"data\"\n\
                         profiles = [\"data-analysis\", \"base\"]\nreview-by = \"2027-01-31\"\n\n[bound.limits]\nwall = \"1min\"\nmemory = \"64MiB\"\n\
                         [bound.network]\nallow = []\n";

    fn error(from: &str, to: &str) -> ProfileError {
        AgentRecord::parse("a.toml", &WHOLE.replacen(from, to, 1)).expect_err(to)
    }

    #[test]
    fn the_canonical_form_is_read_as_the_same_record() {
        let record = AgentRecord::parse("a.toml", WHOLE).unwrap();
        assert_eq!(AgentRecord::parse("b.toml", record.text()).unwrap(), record);
        assert_eq!(record.profiles.to_string(), "base, data-analysis");
        assert_eq!(
            record.bound,
            crate::profile::parse_bound("b", "[limits]\nwall = \"1min\"\nmemory = \"64MiB\"\n[network]\nallow = []").unwrap()
        );
        let other =
            WHOLE.replace("[\"data-analysis\", \"base\"]", "[ 'base', \"data-analysis\" ] # two").replace("\"2027-01-31\"", "2027-01-31");
        assert_eq!(AgentRecord::parse("c.toml", &other).unwrap().text(), record.text());
        let empty = WHOLE.split("[bound.limits]").next().unwrap();
        let without = AgentRecord::parse("d.toml", empty).unwrap();
        assert_eq!(without.bound, crate::Capabilities::unlimited());
        assert_eq!(AgentRecord::parse("d.toml", &format!("{empty}[bound.limits]\n")).unwrap().text(), without.text());
    }

    #[test]
    fn the_local_agent_alone_may_run_anything_for_ever() {
        let local = AgentRecord::local(&"anna".parse().unwrap()).unwrap();
        assert_eq!((&local.profiles, local.review_by, local.id.is_local()), (&AgentProfiles::All, None, true));
        assert_eq!(AgentRecord::parse("x", local.text()).unwrap(), local);
        assert!(error("[\"data-analysis\", \"base\"]", "[\"*\"]").cause.contains("only the local agent"));
        assert!(error("review-by = \"2027-01-31\"", "").cause.contains("no `review-by`"));
    }

    #[test]
    fn a_bad_file_is_refused_with_its_place() {
        for (from, to, line, cause) in [
            ("report-writer", "../x", 1, "is not the name of an agent"),
            ("Report writer", "Report\\u001b[31m", 2, "is not a line"),
            ("weekly reports", "\u{202e}x", 3, "is not a line"),
            ("weekly reports", "", 3, "is not a line"),
            ("\"anna\"", "\"Anna B\"", 4, "is not the name of a person"),
            ("\"data\"", "\"\"", 5, "is not the name of a group"),
            ("[\"data-analysis\", \"base\"]", "[]", 6, "`profiles` is empty"),
            ("\"base\"", "\"./mine.toml\"", 6, "not a profile name"),
            ("\"2027-01-31\"", "\"soon\"", 7, "is not a date"),
            ("\"2027-01-31\"", "2027-01-31T00:00:00Z", 7, "is not a date"),
            ("\"2027-01-31\"", "7", 7, "is not a date"),
            ("[bound.limits]", "[bound.limit]", 9, "unknown field `limit`"),
            ("64MiB", "64", 11, "MiB"),
            ("owner = \"anna\"\n", "", 1, "the agent has no `owner`"),
            ("team", "tean", 5, "unknown field `tean`"),
            ("allow = []", "private = [\"10.0.0.0/8\"]", 13, "which only the operator can"),
        ] {
            let refused = error(from, to);
            assert!(refused.cause.contains(cause) && !refused.fix.is_empty(), "{to}: {refused:?}");
            assert_eq!(refused.line, line, "{refused}");
        }
    }
}
