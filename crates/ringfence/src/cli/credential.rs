//! `ringfence credential`: set, ls, rm. A value is read from standard input or a file, never from the command line, where others could see it.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ringfence_egress::CredentialValue;
use ringfence_policy::CredentialName;
use ringfence_store::Credentials;

use super::Context;
use super::out::{self, Failure};

/// Arguments of `credential`.
#[derive(Debug, Args)]
pub(crate) struct CredentialArguments {
    #[command(subcommand)]
    command: CredentialCommand,
}

#[derive(Debug, Subcommand)]
enum CredentialCommand {
    /// Store a credential, sealed, in place of one that is there; the value is read from standard input
    #[command(
        after_help = "Examples:\n  printf %s \"$TOKEN\" | ringfence credential set github\n  ringfence credential set github --from token.txt"
    )]
    Set {
        /// Its name, as profiles name it under `[credentials]`
        name: CredentialName,
        /// Read the value from this file
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// List stored credentials, without their values
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a credential
    Rm {
        /// Its name
        name: CredentialName,
    },
}

pub(crate) fn run(context: &Context, arguments: &CredentialArguments) -> Result<u8, Failure> {
    let home = context.home()?;
    let credentials = Credentials::of(&home, context.config.key_sources.clone());
    match &arguments.command {
        CredentialCommand::Set { name, from } => set(&credentials, name, from.as_deref(), context.is_quiet)?,
        CredentialCommand::Ls { json } => list(&credentials, *json)?,
        CredentialCommand::Rm { name } => {
            let removed = credentials.remove(name.as_str()).map_err(|e| Failure::hinted(&e, e.hint()))?;
            if !removed {
                return Err(Failure::new(format!("there is no credential `{name}`"), "see `ringfence credential ls`"));
            }
        }
    }
    Ok(0)
}

fn set(credentials: &Credentials, name: &CredentialName, from: Option<&Path>, is_quiet: bool) -> Result<(), Failure> {
    let value = match from {
        Some(path) => read(File::open(path), &format!("`{}`", path.display()))?,
        None => {
            if io::stdin().is_terminal() && !is_quiet {
                out::complain("ringfence: type the value (it is shown), then Enter and Ctrl-D; or pipe it in");
            }
            read(Ok(io::stdin()), "standard input")?
        }
    };
    let value = CredentialValue::new(value).map_err(|error| Failure::new(error, "store the bare value: one line, nothing around it"))?;
    credentials.set(name.as_str(), value.expose()).map_err(|e| Failure::hinted(&e, e.hint()))
}

/// All of the text, without the line break that an editor leaves at its end.
fn read(source: io::Result<impl Read>, name: &str) -> Result<String, Failure> {
    let most = CredentialValue::MOST as u64 + 2;
    let mut bytes = Vec::new();
    let read = source.and_then(|source| source.take(most).read_to_end(&mut bytes));
    read.map_err(|error| Failure::new(format!("reading {name}: {error}"), "name a file that you can read"))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::new(format!("{name} is not text"), "store the bare value in one line"))?;
    Ok(text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line)).to_owned())
}

fn list(credentials: &Credentials, is_json: bool) -> Result<(), Failure> {
    let rows = credentials.list().map_err(|e| Failure::hinted(&e, e.hint()))?;
    if is_json {
        return out::print_json(&rows);
    }
    let lines: String = rows.iter().map(|row| format!("{}  set {}\n", row.name, row.set_at)).collect();
    out::print(if lines.is_empty() { "no credentials are stored\n" } else { &lines })
}
