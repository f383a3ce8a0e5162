//! `ringfence profile`: list, show, check; of a server the first two.

use std::path::Path;

use clap::{Args, Subcommand};
use ringfence_control::{find_profile, read_text};
use ringfence_policy::{Profile, shipped};

use serde::Deserialize;

use super::Context;
use super::out::{self, Failure};
use crate::remote::Server;

/// Arguments of `profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// List the profiles that ship and those in the home
    Ls,
    /// Print the text of a profile
    #[command(after_help = "Example:\n  ringfence profile show data-analysis > mine.toml")]
    Show {
        /// Name of a profile, or a file
        profile: String,
    },
    /// Check a file: line, field, cause and fix of the first fault
    #[command(after_help = "Example:\n  ringfence profile check mine.toml")]
    Check {
        /// The file
        file: std::path::PathBuf,
    },
}

pub(crate) fn run(context: &Context, arguments: &ProfileArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return elsewhere(context, &server, &arguments.command).map(|()| 0);
    }
    match &arguments.command {
        ProfileCommand::Ls => print_list(own(context)?)?,
        ProfileCommand::Show { profile } => {
            let found = find_profile(&context.home()?, profile).map_err(|e| Failure::hinted(&e, e.hint()))?;
            out::print(&found.text)?;
        }
        ProfileCommand::Check { file } => check(file)?,
    }
    Ok(0)
}

/// A profile in a list: its name, and what it is for.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) name: String,
    summary: String,
    #[serde(default)]
    pub(super) is_shipped: bool,
}

#[derive(Debug, Deserialize)]
struct ProfileList {
    profiles: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
struct ProfileView {
    text: String,
}

/// The profiles of a server.
pub(super) fn listed(server: &Server) -> Result<Vec<Listed>, Failure> {
    Ok(server.get::<ProfileList>(&["profiles"])?.profiles)
}

fn elsewhere(context: &Context, server: &Server, command: &ProfileCommand) -> Result<(), Failure> {
    match command {
        ProfileCommand::Ls => print_list(listed(server)?),
        ProfileCommand::Show { profile } => out::print(&out::harmless_lines(&server.get::<ProfileView>(&["profiles", profile])?.text)),
        ProfileCommand::Check { .. } => context.alone("profile check"),
    }
}

fn print_list(profiles: Vec<Listed>) -> Result<(), Failure> {
    let row = |listed: Listed| vec![out::harmless(&listed.name), out::harmless(&listed.summary)];
    out::print(&out::table(&["profile", "for"], profiles.into_iter().map(row).collect()))
}

/// Those that ship, and those in the home; one that does not read says why.
fn own(context: &Context) -> Result<Vec<Listed>, Failure> {
    let home = context.home()?;
    let own = std::fs::read_dir(home.root().join("profiles")).into_iter().flatten().flatten();
    let own = own.filter_map(|e| e.file_name().to_str().and_then(|n| n.strip_suffix(".toml")).map(str::to_owned));
    let mut names: Vec<String> = shipped().iter().map(|s| s.name.to_owned()).collect();
    let mut own = own.filter(|name| !names.contains(name)).collect::<Vec<_>>();
    own.sort();
    names.extend(own);
    let listed = |name: String| {
        let found = find_profile(&home, &name);
        let summary = found.map_or_else(|error| format!("does not read: {error}"), |found| found.profile.summary);
        Listed { is_shipped: shipped().iter().any(|shipped| shipped.name == name), name, summary }
    };
    Ok(names.into_iter().map(listed).collect())
}

fn check(file: &Path) -> Result<(), Failure> {
    let text = read_text(file).map_err(|e| Failure::new(format!("reading `{}`: {e}", file.display()), "name a file that you can read"))?;
    let profile = Profile::parse(&file.to_string_lossy(), &text).map_err(|e| Failure::new(&e, e.fix.clone()))?;
    out::print(&format!("{}: profile `{}` is well-formed\n", file.display(), profile.name))
}
