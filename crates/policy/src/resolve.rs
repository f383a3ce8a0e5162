//! The decision: ceiling ∧ profile ∧ agent bounds the run, the ask narrows it or is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ask::Ask;
use crate::capabilities::Capabilities;
use crate::choices::{Execution, Inputs, PackageMode, Project, Sensitivity, State, Storage, Tier, Wildcards};
use crate::destination::Destination;
use crate::field::Field;
use crate::lattice::Set;
use crate::names::PathScope;
use crate::packages::Packages;
use crate::profile::{Bound, Profile};

/// Who set a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The operator.
    Ceiling,
    /// The class of work.
    Profile,
    /// The agent.
    Agent,
    /// The request itself.
    Request,
    /// The host, which cannot give what the run needs.
    Host,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ceiling => "ceiling",
            Self::Profile => "profile",
            Self::Agent => "agent",
            Self::Request => "request",
            Self::Host => "host",
        })
    }
}

/// Why a run may not be: which rule, whose, and what would allow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{rule} (set by the {layer})")]
pub struct Refusal {
    /// The rule that was broken, in words.
    pub rule: String,
    /// The layer that set it.
    pub layer: Layer,
    /// What would allow it.
    pub hint: String,
}

/// Which layer decided one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The field's name.
    pub field: String,
    /// Its value, as printed.
    pub value: String,
    /// The layers whose own bound is the value; more than one where the value is what several have in common.
    pub layers: Vec<Layer>,
}

/// What one run may do, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The profile's name.
    pub profile: String,
    /// What the run may do.
    pub capabilities: Capabilities,
    /// What the run asked for.
    pub ask: Ask,
    /// Who decided each field.
    pub decisions: Vec<Decision>,
}

/// Decides on a request.
pub fn resolve(ceiling: &Bound, profile: &Profile, agent: &Bound, ask: &Ask) -> Result<Grant, Refusal> {
    let layers = Layers { ceiling, profile, agent, bound: ceiling.meet(&profile.bound).meet(agent) };
    layers.check_image()?;
    layers.check_files(ask)?;
    layers.check_environment(ask)?;
    layers.check_network(ask)?;
    layers.check_limits(ask)?;
    layers.check_tier(ask)?;
    layers.check_packages()?;
    let capabilities = narrow(&layers.bound, ask);
    let decisions = Field::all().map(|field| layers.decision(field, &capabilities)).collect();
    Ok(Grant { profile: profile.name.to_string(), capabilities, ask: ask.clone(), decisions })
}

/// The bound made smaller by what was named. Only what was named changes.
fn narrow(bound: &Capabilities, ask: &Ask) -> Capabilities {
    let mut granted = bound.clone();
    if !ask.destinations.is_empty() {
        granted.network = bound.network.meet(&Set::only(ask.destinations.iter().cloned()));
    }
    granted.network = granted.reachable();
    if ask.without_network {
        granted.network = Set::none();
        granted.packages = Packages::nothing();
    }
    granted.limits = granted.limits.meet(&ask.limits);
    granted.sensitivity = granted.sensitivity.max(ask.sensitivity.unwrap_or(Sensitivity::Public));
    granted.tier = granted.tier.max(ask.tier.unwrap_or(Tier::Process)).max(granted.tiers.of(granted.sensitivity));
    // As with a project: what the bound allows is had only by those who name it.
    granted.storage = granted.storage.min(ask.storage.unwrap_or(Storage::Memory));
    granted
}

struct Layers<'a> {
    ceiling: &'a Bound,
    profile: &'a Profile,
    agent: &'a Bound,
    bound: Capabilities,
}

impl Layers<'_> {
    fn each(&self) -> [(Layer, &Capabilities); 3] {
        [(Layer::Profile, &self.profile.bound), (Layer::Agent, self.agent), (Layer::Ceiling, self.ceiling)]
    }

    /// The first layer that does not allow something.
    fn refuse(&self, allows: impl Fn(&Capabilities) -> bool, rule: String, mend: &str) -> Result<(), Refusal> {
        if allows(&self.bound) {
            return Ok(());
        }
        let layer = self.each().into_iter().find(|(_, bound)| !allows(bound)).map_or(Layer::Profile, |(layer, _)| layer);
        let hint = match layer {
            Layer::Ceiling => format!("{mend} in the [ceiling] of ringfence.toml"),
            Layer::Agent => format!("{mend} in the agent's posture"),
            Layer::Profile | Layer::Request | Layer::Host => {
                format!("{mend} in profile `{}`, or choose another profile", self.profile.name)
            }
        };
        Err(Refusal { rule, layer, hint })
    }

    /// What a run sees is one image, and it is known which before anything is made.
    fn check_image(&self) -> Result<(), Refusal> {
        let wanted = &self.profile.bound.image;
        match &self.bound.image {
            Set::Only(images) if images.len() > 1 && self.bound.execution == Execution::Commands => Err(Refusal {
                rule: format!("image `{wanted}` may be any of {}", self.bound.image),
                layer: Layer::Profile,
                hint: format!("name one of them as `image` in profile `{}`", self.profile.name),
            }),
            Set::All | Set::Only(_) => {
                let allows = |c: &Capabilities| c.execution == Execution::None || !c.image.meet(wanted).is_none();
                self.refuse(allows, format!("image `{wanted}` is not allowed"), &format!("add \"{wanted}\" to `image`"))
            }
        }
    }

    fn check_files(&self, ask: &Ask) -> Result<(), Refusal> {
        if !ask.inputs.is_empty() {
            self.refuse(|c| c.inputs == Inputs::Named, "inputs are not allowed".into(), "set `inputs = \"named\"` under [files]")?;
        }
        if ask.project {
            self.refuse(|c| c.project == Project::View, "a project is not allowed".into(), "set `project = \"view\"` under [files]")?;
        }
        if ask.storage == Some(Storage::Disk) {
            let rule = "storage on disk is not allowed";
            self.refuse(|c| c.storage == Storage::Disk, rule.into(), "set `storage = \"disk\"` under [files]")?;
        }
        self.check_state(ask)?;
        for path in &ask.reveal {
            let scope = PathScope::exactly(path.as_str()).unwrap_or_else(|_| unreachable!("INVARIANT (relative)"));
            let rule = format!("hidden file `{path}` may not be revealed");
            self.refuse(|c| c.reveal.allows(&scope), rule, &format!("add \"{path}\" to `reveal` under [files]"))?;
        }
        for glob in &ask.exports {
            let rule = format!("`{glob}` may not be exported");
            self.refuse(|c| c.exports.allows(&glob.scope()), rule, &format!("add \"{}\" to `exports` under [files]", glob.scope()))?;
        }
        Ok(())
    }

    /// A project has files of its own, and what becomes of them leaves as a patch.
    fn check_state(&self, ask: &Ask) -> Result<(), Refusal> {
        if ask.state.is_none() && !ask.from_session {
            return Ok(());
        }
        if ask.project {
            return Err(Refusal {
                rule: "a run over a project has no state: the files of the project are its workspace".into(),
                layer: Layer::Request,
                hint: "leave out the project, or the state; what changes in a project leaves as `changes.patch`".into(),
            });
        }
        let rule = match &ask.state {
            Some(name) => format!("state `{name}` is not allowed: nothing that is written may outlive the run"),
            None => "beginning with the files of an earlier session is not allowed: nothing that is written may outlive the run".into(),
        };
        self.refuse(|c| c.state == State::Named, rule, "set `state = \"named\"` under [files]")
    }

    fn check_environment(&self, ask: &Ask) -> Result<(), Refusal> {
        for name in &ask.environment {
            let rule = format!("variable `{name}` may not be set");
            self.refuse(|c| c.allows_variable(name), rule, &format!("add \"{name}\" to `allow` under [environment]"))?;
        }
        Ok(())
    }

    fn check_network(&self, ask: &Ask) -> Result<(), Refusal> {
        for place in &ask.destinations {
            let rule = format!("destination `{place}` is not on the allowlist");
            let admits = |network: &Set<Destination>| match network {
                Set::All => true,
                Set::Only(listed) => listed.iter().any(|rule| rule.admits(place)),
            };
            let allows = |c: &Capabilities| admits(&c.network) && (c.wildcards == Wildcards::Any || place.is_one_host());
            self.refuse(allows, rule, &format!("add \"{place}\" to `allow` under [network]"))?;
        }
        Ok(())
    }

    fn check_limits(&self, ask: &Ask) -> Result<(), Refusal> {
        for (key, asked) in ask.limits.iter() {
            let most = self.bound.limits.get(key).map_or_else(String::new, |v| key.show(v));
            let rule = format!("limit `{key}` of {} is above the bound of {most}", key.show(asked));
            let allows = |c: &Capabilities| c.limits.get(key).is_none_or(|v| asked <= v);
            self.refuse(allows, rule, &format!("ask for at most {most}, or raise `{key}` under [limits]"))?;
        }
        Ok(())
    }

    fn check_tier(&self, ask: &Ask) -> Result<(), Refusal> {
        match ask.tier {
            Some(tier) if tier < self.bound.tier => {
                let rule = format!("tier `{tier}` is weaker than the least tier, `{}`", self.bound.tier);
                self.refuse(|c| tier >= c.tier, rule, "lower `tier`")
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A profile written for `open` installs under a ceiling without them runs with less, except that the choice was the profile's whole point.
    fn check_packages(&self) -> Result<(), Refusal> {
        if self.profile.bound.packages.most() < PackageMode::Open || self.bound.execution == Execution::None {
            return Ok(());
        }
        let rule = "profile asks for `open` package installs".to_owned();
        self.refuse(|c| c.packages.most() == PackageMode::Open, rule, "allow `open` for the language under [packages]")
    }

    fn decision(&self, field: Field, granted: &Capabilities) -> Decision {
        let value = granted.show(field);
        let narrowed = self.bound.show(field) != value;
        let layers = match narrowed {
            true => vec![Layer::Request],
            false => self.each().into_iter().filter(|(_, bound)| bound.show(field) == value).map(|(layer, _)| layer).take(1).collect(),
        };
        let layers = if layers.is_empty() { self.each().map(|(layer, _)| layer).to_vec() } else { layers };
        Decision { field: field.to_string(), value, layers }
    }
}
