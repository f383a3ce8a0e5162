//! `ringfence completions`: completions for a shell, and the man page, made from the arguments themselves.

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::Arguments;
use super::out::{self, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    Bash,
    Zsh,
    Fish,
    /// The man page, in troff
    Man,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ringfence completions bash > /etc/bash_completion.d/ringfence\n  ringfence completions man | man -l -")]
pub(crate) struct CompletionArguments {
    /// For what
    target: Target,
}

pub(crate) fn run(arguments: &CompletionArguments) -> Result<u8, Failure> {
    let mut command = Arguments::command();
    let mut text = Vec::new();
    let shell = match arguments.target {
        Target::Bash => Some(Shell::Bash),
        Target::Zsh => Some(Shell::Zsh),
        Target::Fish => Some(Shell::Fish),
        Target::Man => None,
    };
    match shell {
        Some(shell) => clap_complete::generate(shell, &mut command, "ringfence", &mut text),
        None => clap_mangen::Man::new(command).render(&mut text).map_err(|e| Failure::new(e, ""))?,
    }
    out::print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}
