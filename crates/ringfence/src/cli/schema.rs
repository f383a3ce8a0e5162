//! `ringfence schema`: the JSON Schema of each format that people or programs read and write.

use clap::{Args, ValueEnum};
use ringfence_control::{Audit, PromotionReport, Replay, RunReport};
use ringfence_policy::{RawAgent, RawBound, RawSettings};

use super::out::{self, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A profile (TOML)
    Profile,
    /// An agent (TOML)
    Agent,
    /// `ringfence.toml`
    Settings,
    /// What `run --json` prints
    Report,
    /// What `audit --format json` prints
    Audit,
    /// What `promote --json` and `promotion show --json` print
    Promotion,
    /// What `evidence replay --json` prints
    Replay,
    /// What `serve` answers: OpenAPI 3.1
    Api,
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ringfence schema report > run-report.schema.json")]
pub(crate) struct SchemaArguments {
    /// Which format
    format: Format,
}

pub(crate) fn run(arguments: &SchemaArguments) -> Result<u8, Failure> {
    let schema = match arguments.format {
        Format::Profile => schemars::schema_for!(RawBound),
        Format::Agent => schemars::schema_for!(RawAgent),
        Format::Settings => schemars::schema_for!(RawSettings),
        Format::Report => schemars::schema_for!(RunReport),
        Format::Audit => schemars::schema_for!(Audit),
        Format::Promotion => schemars::schema_for!(PromotionReport),
        Format::Replay => schemars::schema_for!(Replay),
        Format::Api => return out::print(&ringfence_server::openapi()).map(|()| 0),
    };
    out::print_json(&schema)?;
    Ok(0)
}
