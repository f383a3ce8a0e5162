//! `ringfence profile`: list, show, check.

use std::path::Path;

use clap::{Args, Subcommand};
use ringfence_control::{find_profile, read_text};
use ringfence_policy::{Profile, shipped};

use super::Context;
use super::out::{self, Failure};

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
    match &arguments.command {
        ProfileCommand::Ls => list(context)?,
        ProfileCommand::Show { profile } => {
            let found = find_profile(&context.home()?, profile).map_err(|e| Failure::hinted(&e, e.hint()))?;
            out::print(&found.text)?;
        }
        ProfileCommand::Check { file } => check(file)?,
    }
    Ok(0)
}

fn list(context: &Context) -> Result<(), Failure> {
    let home = context.home()?;
    let own = std::fs::read_dir(home.root().join("profiles")).into_iter().flatten().flatten();
    let own = own.filter_map(|e| e.file_name().to_str().and_then(|n| n.strip_suffix(".toml")).map(str::to_owned));
    let mut names: Vec<String> = shipped().iter().map(|s| s.name.to_owned()).collect();
    let own = own.filter(|name| !names.contains(name)).collect::<Vec<_>>();
    names.extend(own);
    let row = |name: &String| match find_profile(&home, name) {
        Ok(found) => vec![name.clone(), found.profile.summary],
        Err(error) => vec![name.clone(), format!("does not read: {error}")],
    };
    out::print(&out::table(&["profile", "for"], names.iter().map(row).collect()))
}

fn check(file: &Path) -> Result<(), Failure> {
    let text = read_text(file).map_err(|e| Failure::new(format!("reading `{}`: {e}", file.display()), "name a file that you can read"))?;
    let profile = Profile::parse(&file.to_string_lossy(), &text).map_err(|e| Failure::new(&e, e.fix.clone()))?;
    out::print(&format!("{}: profile `{}` is well-formed\n", file.display(), profile.name))
}
