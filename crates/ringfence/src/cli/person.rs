//! `ringfence person`: add, ls, set, retire. The private part of a key goes into the person's own file and is printed nowhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfence_control::{NewKey, NewPerson, Person, Persons};
use ringfence_policy::{GroupName, PersonName};
use ringfence_store::read_public_key;

use super::Context;
use super::out::{self, Failure, parsed};

/// Arguments of `person`.
#[derive(Debug, Args)]
pub(crate) struct PersonArguments {
    #[command(subcommand)]
    command: PersonCommand,
}

#[derive(Debug, Subcommand)]
enum PersonCommand {
    /// Register a person who can answer for agents and approve; the key is made, in a file of the person's own
    #[command(
        after_help = "Examples:\n  ringfence person add\n  ringfence person add anna --identity anna@example.com --group security\n  ringfence person add ben --public-key ben.pub"
    )]
    Add(AddArguments),
    /// List persons
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put a person into these groups and no others
    #[command(after_help = "Example:\n  ringfence person set anna --group security --group data")]
    Set {
        /// The person
        name: String,
        /// Group; repeatable
        #[arg(long, value_name = "GROUP", required_unless_present = "no_groups")]
        group: Vec<String>,
        /// No group at all
        #[arg(long, conflicts_with = "group")]
        no_groups: bool,
    },
    /// Let a person's word count no more, for good; the name, the identity and the key stay taken
    Retire {
        /// The person
        name: String,
    },
}

#[derive(Debug, Args)]
struct AddArguments {
    /// A name: lower-case letters, digits, `.`, `-` and `_` [default: the login user]
    name: Option<String>,
    /// Login name or e-mail address [default: the name]
    #[arg(long, value_name = "ID")]
    identity: Option<String>,
    /// Group; repeatable
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Where to make the private key [default: ringfence/NAME.key in the XDG configuration folder]
    #[arg(long, value_name = "FILE", conflicts_with = "public_key")]
    key: Option<PathBuf>,
    /// The public key of a person who has one already, in PEM form
    #[arg(long, value_name = "PUB")]
    public_key: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, arguments: &PersonArguments) -> Result<u8, Failure> {
    let persons = Persons::of(&context.home()?);
    match &arguments.command {
        PersonCommand::Add(arguments) => add(context, &persons, arguments)?,
        PersonCommand::Ls { json } => list(&persons, *json)?,
        PersonCommand::Set { name, group, .. } => {
            let person = persons.set_groups(&person_name(name)?, groups(group)?).map_err(|e| Failure::hinted(&e, e.hint()))?;
            out::print(&format!("person `{}`: {}\n", person.name, groups_in_words(&person)))?;
        }
        PersonCommand::Retire { name } => {
            let person = persons.retire(&person_name(name)?).map_err(|e| Failure::hinted(&e, e.hint()))?;
            out::print(&format!("person `{}` is {}\n", person.name, person.state))?;
        }
    }
    Ok(0)
}

fn add(context: &Context, persons: &Persons, arguments: &AddArguments) -> Result<(), Failure> {
    let name = match &arguments.name {
        Some(name) => person_name(name)?,
        None => persons.login_user().map_err(|e| Failure::hinted(&e, e.hint()))?.name,
    };
    let identity = arguments.identity.as_deref().map(|text| parsed(text, "such as --identity anna@example.com")).transpose()?;
    let key = match (&arguments.public_key, &arguments.key) {
        (Some(path), _) => NewKey::Given(read_public_key(path).map_err(|e| Failure::hinted(&e, e.hint()))?),
        (None, Some(path)) => NewKey::Made(path.clone()),
        (None, None) => NewKey::Made(context.config.person_key(name.as_str()).ok_or_else(|| {
            Failure::new("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for the key", "name a file: --key FILE")
        })?),
    };
    let place = match &key {
        NewKey::Made(path) => format!("the private key is in `{}`, readable by you alone", out::harmless(&path.to_string_lossy())),
        NewKey::Given(_) => "only the public key is known here".to_owned(),
    };
    let new = NewPerson { name, identity, groups: groups(&arguments.group)? };
    let person = persons.add(new, key).map_err(|e| Failure::hinted(&e, e.hint()))?;
    out::print(&format!("person `{}` ({}) is registered; {place}\n", person.name, person.identity))
}

fn list(persons: &Persons, is_json: bool) -> Result<(), Failure> {
    persons.login_user().map_err(|e| Failure::hinted(&e, e.hint()))?;
    let all = persons.all().map_err(|e| Failure::hinted(&e, e.hint()))?;
    if is_json {
        return out::print_json(&all);
    }
    let key = |person: &Person| person.key.as_ref().map_or_else(|| "none".to_owned(), |key| key.id()[..16].to_owned());
    let row = |person: &Person| {
        vec![person.name.to_string(), person.identity.to_string(), groups_in_words(person), key(person), person.state.to_string()]
    };
    out::print(&out::table(&["person", "identity", "groups", "key", "state"], all.iter().map(row).collect()))
}

pub(super) fn person_name(text: &str) -> Result<PersonName, Failure> {
    parsed(text, "such as `anna`; see `ringfence person ls`")
}

fn groups(texts: &[String]) -> Result<BTreeSet<GroupName>, Failure> {
    texts.iter().map(|text| parsed(text, "such as --group security")).collect()
}

fn groups_in_words(person: &Person) -> String {
    let names: Vec<&str> = person.groups.iter().map(GroupName::as_str).collect();
    if names.is_empty() { "no groups".to_owned() } else { names.join(", ") }
}
