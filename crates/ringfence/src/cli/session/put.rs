//! `session put`: a file of this host, as it is.

use std::fs::File;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use crate::cli::Context;
use crate::cli::out::{self, Failure, complain};
use crate::remote::Server;

/// Arguments of `session put`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ringfence session put 01kbdz9xk3v8p5r0q2n7m4t6w1 data.csv tables/data.csv")]
pub(super) struct PutArguments {
    /// The session
    session: String,
    /// The file
    file: PathBuf,
    /// Its path in the sandbox, from the home if it does not begin with `/`; what is there is replaced [default: its name]
    path: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Written {
    path: String,
    bytes: u64,
    sha256: String,
}

pub(super) fn run(context: &Context, server: &Server, arguments: &PutArguments) -> Result<u8, Failure> {
    let PutArguments { session, file, path } = arguments;
    let fail = |why: &dyn std::fmt::Display| Failure::new(format!("`{}`: {why}", file.display()), "name a file that you can read");
    if !file.metadata().map_err(|e| fail(&e))?.is_file() {
        return Err(fail(&"it is no file"));
    }
    let name = file.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let path = path.clone().or(name).ok_or_else(|| fail(&"its name is not UTF-8; name a path for it"))?;
    let written: Written = server.put(session, &path, File::open(file).map_err(|e| fail(&e))?)?;
    if !context.is_quiet {
        let Written { path, bytes, sha256 } = written;
        complain(&out::harmless(&format!("ringfence: {path} ({}, {sha256})", out::bytes(bytes))));
    }
    Ok(0)
}
