//! The command line: one file a command. This one matches and calls.

mod agent;
mod approval;
mod artifact;
mod audit;
mod completions;
mod credential;
mod doctor;
mod evidence;
mod explain;
mod image;
mod key;
mod matrix;
mod out;
mod person;
mod profile;
mod progress;
mod promote;
mod promotion;
mod run;
mod schema;
mod serve;
mod session;
mod state;
mod tenant;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ringfence_control::{Runner, Settings, Surroundings};
use ringfence_store::Home;

use crate::config::Config;
use crate::remote::{RemoteError, Server};
use out::Failure;

/// Runs model-written code in a smaller computer: an isolated, throw-away workspace with declared capabilities and a sealed record.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, max_term_width = 110, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// Settings to use instead of `ringfence.toml` in the home
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Server to ask instead of this host; the key is taken from RINGFENCE_API_KEY, never from an argument [env: RINGFENCE_SERVER]
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// Certificates in PEM form to trust in a server, beside those of this host
    #[arg(long, global = true, value_name = "FILE")]
    server_ca: Option<PathBuf>,
    /// Print nothing but results and errors
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command in a sandbox, export what was named, and seal the record
    Run(Box<run::RunArguments>),
    /// Print the capability matrix: what each profile may do
    Matrix(matrix::MatrixArguments),
    /// Measure from inside what a profile allows, beside what it declares
    Audit(audit::AuditArguments),
    /// List, show or check profiles
    Profile(profile::ProfileArguments),
    /// List, show or verify the records of runs
    Evidence(evidence::EvidenceArguments),
    /// List, show or fetch what left sandboxes
    Artifact(artifact::ArtifactArguments),
    /// Ask that an artifact takes effect: checked in a sandbox, approved by persons, applied once
    Promote(promote::PromoteArguments),
    /// List, show or take back promotions
    Promotion(promotion::PromotionArguments),
    /// List, show or decide what persons are asked to approve
    Approval(approval::ApprovalArguments),
    /// Store, list or forget credentials that are put in outside the sandbox
    Credential(credential::CredentialArguments),
    /// Register agents, and decide what becomes of them: each has an owner, a bound and a life
    Agent(agent::AgentArguments),
    /// Register, list, group or retire persons: who answers for agents and approves
    Person(person::PersonArguments),
    /// Import, build, list or remove images: what runs see as `/`, beside the host's own
    Image(image::ImageArguments),
    /// List or remove states: files that outlive the runs which name them
    State(state::StateArguments),
    /// Make and use sessions of a server: sandboxes that stand, with commands and files that come and go
    Session(session::SessionArguments),
    /// Serve the API over HTTP: runs, evidence, approvals, for tenants with keys
    Serve(serve::ServeArguments),
    /// Make, list or revoke the keys by which clients of a server are known
    Key(key::KeyArguments),
    /// Add or list the tenants of a server: each sees its own runs alone
    Tenant(tenant::TenantArguments),
    /// Print what this host can enforce, what is missing, and how to get it
    Doctor(doctor::DoctorArguments),
    /// Print the JSON Schema of a format
    Schema(schema::SchemaArguments),
    /// Print completions for a shell, or the man page
    Completions(completions::CompletionArguments),
}

/// What every command can use.
pub(crate) struct Context {
    config: Config,
    settings: Option<PathBuf>,
    server: Option<String>,
    server_ca: Option<PathBuf>,
    is_quiet: bool,
}

impl Context {
    /// The server that is asked instead of this host, if one is named.
    fn server(&self) -> Result<Option<Server>, Failure> {
        let Some(address) = &self.server else { return Ok(None) };
        Ok(Some(Server::new(address.parse()?, self.config.api_key.as_ref(), self.server_ca.as_ref())?))
    }

    /// What is about this host alone is refused where a server is named: it would be done in another place than was meant.
    fn alone(&self, what: &str) -> Result<(), Failure> {
        match &self.server {
            None => Ok(()),
            Some(server) => Err(Failure::new(
                format!("`ringfence {what}` is about this host alone, and server {} is named", out::harmless(server)),
                "leave --server out and unset RINGFENCE_SERVER; about a server's own host it is asked there",
            )),
        }
    }

    fn home(&self) -> Result<Home, Failure> {
        Home::open(&self.config.home).map_err(|e| Failure::hinted(&e, e.hint()))
    }

    fn settings(&self, home: &Home) -> Result<Settings, Failure> {
        let path = self.settings.clone().unwrap_or_else(|| home.settings());
        Settings::load(&path, self.settings.is_none()).map_err(|e| Failure::hinted(&e, e.hint()))
    }

    fn runner(&self, home: Home) -> Result<Runner, Failure> {
        let settings = self.settings(&home)?;
        let runner = Runner::open(home, settings).map_err(|e| Failure::hinted(&e, e.hint()))?;
        let (key_sources, environment) = (self.config.key_sources.clone(), self.config.environment.clone());
        Ok(runner.within(Surroundings { key_sources, environment }))
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        Self::hinted(&error, error.hint())
    }
}

/// Parses, dispatches, and turns what happened into an exit status.
pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return out::usage(&error),
    };
    match dispatch(arguments) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.print(),
    }
}

fn dispatch(arguments: Arguments) -> Result<u8, Failure> {
    let config = Config::read().map_err(|e| Failure::new(e, "set RINGFENCE_HOME to a folder that you can write to"))?;
    let server = arguments.server.or_else(|| config.server.clone());
    let context = Context { config, settings: arguments.config, server, server_ca: arguments.server_ca, is_quiet: arguments.quiet };
    match arguments.command {
        Command::Run(arguments) => run::run(&context, *arguments),
        Command::Matrix(arguments) => matrix::run(&context, &arguments),
        Command::Audit(arguments) => audit::run(&context, &arguments),
        Command::Profile(arguments) => profile::run(&context, &arguments),
        Command::Evidence(arguments) => evidence::run(&context, &arguments),
        Command::Artifact(arguments) => artifact::run(&context, &arguments),
        Command::Promote(arguments) => promote::run(&context, &arguments),
        Command::Promotion(arguments) => promotion::run(&context, &arguments),
        Command::Approval(arguments) => approval::run(&context, &arguments),
        Command::Credential(arguments) => context.alone("credential").and_then(|()| credential::run(&context, &arguments)),
        Command::Agent(arguments) => agent::run(&context, &arguments),
        Command::Person(arguments) => context.alone("person").and_then(|()| person::run(&context, &arguments)),
        Command::Image(arguments) => context.alone("image").and_then(|()| image::run(&context, &arguments)),
        Command::State(arguments) => state::run(&context, &arguments),
        Command::Session(arguments) => session::run(&context, &arguments),
        Command::Serve(arguments) => context.alone("serve").and_then(|()| serve::run(&context, &arguments)),
        Command::Key(arguments) => context.alone("key").and_then(|()| key::run(&context, &arguments)),
        Command::Tenant(arguments) => context.alone("tenant").and_then(|()| tenant::run(&context, &arguments)),
        Command::Doctor(arguments) => context.alone("doctor").and_then(|()| doctor::run(&context, &arguments)),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    }
}
