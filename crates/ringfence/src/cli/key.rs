//! `ringfence key`: add, ls, revoke. A key is shown when it is made, and never again: only its hash is kept.

use clap::{Args, Subcommand};
use ringfence_control::moment_in_words;
use ringfence_policy::TenantName;
use ringfence_store::{Clients, KeyKind, StoreError};

use super::Context;
use super::out::{self, Failure, parsed};

/// Arguments of `key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArguments {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key and print it, this once
    #[command(after_help = "Example:\n  ringfence key add --tenant default --kind api > key.txt")]
    Add {
        /// Whose key it is
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// For which clients: api (our own API) or e2b (clients of E2B)
        #[arg(long, value_name = "KIND", default_value = "api")]
        kind: String,
    },
    /// List keys, without their values
    #[command(after_help = "Example:\n  ringfence key ls --json")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a key open nothing from now on
    #[command(after_help = "Example:\n  ringfence key revoke 01kbdz9xk3v8p5r0q2n7m4t6w1")]
    Revoke {
        /// The key, as `ringfence key ls` names it
        id: String,
    },
}

pub(crate) fn run(context: &Context, arguments: &KeyArguments) -> Result<u8, Failure> {
    let mut clients = Clients::open(&context.home()?).map_err(failure)?;
    match &arguments.command {
        KeyCommand::Add { tenant, kind } => add(&mut clients, tenant, kind)?,
        KeyCommand::Ls { json } => list(&mut clients, *json)?,
        KeyCommand::Revoke { id } => {
            if !clients.revoke_key(id).map_err(failure)? {
                return Err(Failure::new(format!("there is no key `{id}` that opens anything"), "see `ringfence key ls`"));
            }
        }
    }
    Ok(0)
}

pub(super) fn failure(error: StoreError) -> Failure {
    Failure::hinted(&error, error.hint())
}

fn add(clients: &mut Clients, tenant: &str, kind: &str) -> Result<(), Failure> {
    let tenant: TenantName = parsed(tenant, "see `ringfence tenant ls`")?;
    let kind: KeyKind = parsed(kind, "such as --kind api")?;
    let made = clients.add_key(tenant.as_str(), kind).map_err(failure)?;
    let missing = || Failure::new(format!("there is no tenant `{tenant}`"), format!("add it: ringfence tenant add {tenant} --agent ID"));
    out::print(&format!("{}\n", made.ok_or_else(missing)?.expose()))
}

fn list(clients: &mut Clients, is_json: bool) -> Result<(), Failure> {
    let keys = clients.keys().map_err(failure)?;
    if is_json {
        return out::print_json(&keys);
    }
    let moment = |at: Option<i64>, never: &str| at.map_or_else(|| never.to_owned(), moment_in_words);
    let rows = keys.into_iter().map(|key| {
        vec![key.id, key.tenant, key.kind, moment_in_words(key.made_at), moment(key.used_at, "never"), moment(key.revoked_at, "")]
    });
    out::print(&out::table(&["key", "tenant", "kind", "made", "last used", "revoked"], rows.collect()))
}
