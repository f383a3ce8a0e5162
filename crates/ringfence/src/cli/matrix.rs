//! `ringfence matrix`: profile × capability, the five safe defaults first.

use clap::{Args, ValueEnum};
use ringfence_control::{find_profile, missing_in_this_version};
use ringfence_policy::{Execution, Matrix, Profile, shipped};

use super::out::{self, Failure};
use super::{Context, profile};
use crate::remote::Server;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Md,
    Json,
    Html,
}

/// Arguments of `matrix`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ringfence matrix --format md --profile data-analysis --profile scratch")]
pub(crate) struct MatrixArguments {
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Only these profiles; repeatable
    #[arg(long, value_name = "NAME or FILE")]
    profile: Vec<String>,
}

pub(crate) fn run(context: &Context, arguments: &MatrixArguments) -> Result<u8, Failure> {
    let matrix = match context.server()? {
        Some(server) => elsewhere(&server, &arguments.profile)?,
        None => own(context, arguments)?,
    };
    match arguments.format {
        Format::Table => out::print(&table(&matrix))?,
        Format::Md => out::print(&out::harmless_lines(&markdown(&matrix)))?,
        Format::Json => out::print_json(&matrix)?,
        Format::Html => out::print(&out::harmless_lines(&html(&matrix)))?,
    }
    Ok(0)
}

/// The matrix of a server: the profiles that are named, or else those that ship with it.
fn elsewhere(server: &Server, named: &[String]) -> Result<Matrix, Failure> {
    let matrix: Matrix = server.get(&["matrix"])?;
    let shipped =
        || Ok::<_, Failure>(profile::listed(server)?.into_iter().filter(|listed| listed.is_shipped).map(|listed| listed.name).collect());
    let names: Vec<String> = if named.is_empty() { shipped()? } else { named.to_vec() };
    matrix.only(&names).map_err(|name| {
        let known = matrix.profiles.join(", ");
        Failure::new(
            format!("there is no profile `{}` on the server; there are {}", out::harmless(name), out::harmless(&known)),
            "name one of those",
        )
    })
}

fn own(context: &Context, arguments: &MatrixArguments) -> Result<Matrix, Failure> {
    let home = context.home()?;
    let settings = context.settings(&home)?;
    let all = || shipped().iter().map(|s| s.name.to_owned()).collect();
    let names: Vec<String> = if arguments.profile.is_empty() { all() } else { arguments.profile.clone() };
    let profiles = names.iter().map(|name| find_profile(&home, name).map(|found| found.profile)).collect::<Result<Vec<_>, _>>();
    let profiles = profiles.map_err(|e| Failure::hinted(&e, e.hint()))?;
    Ok(Matrix::of(&settings.ceiling, settings.targets.values(), &profiles, missing))
}

/// What keeps a profile from running.
pub(super) fn missing(profile: &Profile) -> Option<String> {
    match profile.bound.execution {
        Execution::None => Some("something to execute in: it has tools only".to_owned()),
        Execution::Commands => missing_in_this_version(&profile.bound),
    }
}

/// Both blocks as rows of text: the header, the safe defaults, the capabilities.
fn blocks(matrix: &Matrix) -> (Vec<String>, Vec<Vec<String>>, Vec<Vec<String>>) {
    let header = std::iter::once(String::new()).chain(matrix.profiles.iter().cloned()).collect();
    let row = |first: String, rest: &[String]| std::iter::once(first).chain(rest.iter().cloned()).collect();
    let defaults = matrix.safe_defaults.iter().map(|d| row(format!("{}: {}", d.action, d.rule), &d.answers)).collect();
    let rows = matrix.rows.iter().map(|r| row(r.capability.clone(), &r.values)).collect();
    (header, defaults, rows)
}

/// On a terminal, profiles are rows' cells; lists are broken over lines.
fn table(matrix: &Matrix) -> String {
    let (header, defaults, rows) = blocks(matrix);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let broken = |rows: Vec<Vec<String>>| rows.into_iter().map(|r| r.into_iter().map(|cell| cell.replace(", ", ",\n")).collect()).collect();
    format!("safe defaults\n{}\ncapabilities\n{}", out::table(&header, broken(defaults)), out::table(&header, broken(rows)))
}

fn markdown(matrix: &Matrix) -> String {
    let (header, defaults, rows) = blocks(matrix);
    let line = |cells: &[String]| format!("| {} |\n", cells.iter().map(|c| c.replace('|', "\\|")).collect::<Vec<_>>().join(" | "));
    let block = |title: &str, rows: &[Vec<String>]| {
        let rule = vec!["---".to_owned(); header.len()];
        let body: String = rows.iter().map(|r| line(r)).collect();
        format!("## {title}\n\n{}{}{body}\n", line(&header), line(&rule))
    };
    format!("# Capability matrix\n\n{}{}", block("Safe defaults", &defaults), block("Capabilities", &rows))
}

fn html(matrix: &Matrix) -> String {
    let (header, defaults, rows) = blocks(matrix);
    let row = |cells: &[String], tag: &str| {
        let first = cells.first().map(|c| format!("<th scope=\"row\">{}</th>", escape(c))).unwrap_or_default();
        let rest: String = cells.iter().skip(1).map(|c| format!("<{tag}>{}</{tag}>", escape(c))).collect();
        format!("<tr>{first}{rest}</tr>\n")
    };
    let block = |title: &str, rows: &[Vec<String>]| {
        let body: String = rows.iter().map(|r| row(r, "td")).collect();
        format!("<h2>{title}</h2>\n<table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table>\n", row(&header, "th"))
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Capability matrix</title>\n<style>\nbody {{ font: 14px/1.4 system-ui, \
         sans-serif; margin: 2rem; }}\ntable {{ border-collapse: collapse; margin-bottom: 2rem; }}\nth, td {{ border: 1px solid #bbb; padding: .3rem .6rem; \
         text-align: left; vertical-align: top; }}\nthead th {{ background: #eee; }}\n</style>\n</head>\n<body>\n<h1>Capability matrix</h1>\n{}{}</body>\n</html>\n",
        block("Safe defaults", &defaults),
        block("Capabilities", &rows)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
