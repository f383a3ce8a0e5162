//! `ringfence image`: import, build, list, remove. What a stranger's image says of itself is shown so that it cannot steer a terminal.

use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfence_control::{BuildRequest, ImageFacts, ImageSource, ImagesError, ListedImage, images, import_image, remove_image};
use ringfence_isolation::stop_requested_descriptor;
use ringfence_policy::{ImageName, ImageTag};

use super::Context;
use super::out::{self, Failure, complain};
use super::progress;

/// Arguments of `image`.
#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Import an image, safely: an OCI layout, an archive of one or of `docker save`, the tar of a root file system, or from a registry
    #[command(
        after_help = "Example:\n  ringfence image import tools.tar --name tools:1\n  ringfence image import oci://registry.example.com/team/tools:1\n\nPrints the digest. Name the image in a profile: `image = \"tools:1\"`, or exactly: `image = \"tools:1@sha256:…\"`."
    )]
    Import {
        /// Folder; archive in plain, gzip or zstd form; or `oci://HOST[:PORT]/NAME[:TAG or @DIGEST]`
        #[arg(value_name = "PATH or oci://…")]
        source: String,
        /// Name that stands for it from now on [default: from a registry, its own]
        #[arg(long, value_name = "NAME[:TAG]")]
        name: Option<String>,
        /// Print what is known of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Build an image from a recipe of pinned files; programs run in a sandbox only
    #[command(
        after_help = "Examples:\n  ringfence image build python\n  ringfence image build my-tools.toml --files wheels/ --name my-tools:2\n\nShipped recipes: python (numpy, pandas, matplotlib) and node. Without --files wheels come through your own package index."
    )]
    Build {
        /// A shipped recipe, or a file
        #[arg(value_name = "NAME or FILE")]
        recipe: String,
        /// Name of the image [default: as the recipe says]
        #[arg(long, value_name = "NAME[:TAG]")]
        name: Option<String>,
        /// Folder with the pinned files
        #[arg(long, value_name = "DIR")]
        files: Option<PathBuf>,
        /// Print what is known of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the imported images
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a name, and with the last of its names the image; or an image by its digest. One that a run has is not removed
    Rm {
        /// The name or digest
        name: String,
    },
}

pub(crate) fn run(context: &Context, arguments: &ImageArguments) -> Result<u8, Failure> {
    match &arguments.command {
        ImageCommand::Import { source, name, json } => import(context, source, name.as_deref(), *json)?,
        ImageCommand::Build { recipe, name, files, json } => {
            let request = BuildRequest { recipe: recipe.clone(), name: tag(name.as_deref())?, files: files.clone() };
            build(context, &request, *json)?;
        }
        ImageCommand::Ls { json } => list(context, *json)?,
        ImageCommand::Rm { name } => remove(context, name)?,
    }
    Ok(0)
}

fn import(context: &Context, source: &str, name: Option<&str>, is_json: bool) -> Result<(), Failure> {
    let source: ImageSource = source.parse().map_err(|e| Failure::new(e, "such as oci://registry.example.com/team/tools:1"))?;
    let name = tag(name)?.or_else(|| source.own_name());
    let (home, settings) = (context.home()?, context.config.registry_settings());
    let mut line = progress::Line::new(context.is_quiet);
    let facts = import_image(&home, &source, settings.as_deref(), name.as_ref(), &mut line).map_err(failure)?;
    drop(line);
    tell(context, &facts, name.as_ref(), is_json)
}

fn build(context: &Context, request: &BuildRequest, is_json: bool) -> Result<(), Failure> {
    let runner = context.runner(context.home()?)?;
    let cancel = stop_requested_descriptor().map_err(|e| Failure::new(format!("watching signals: {e}"), ""))?;
    let mut line = progress::Line::new(context.is_quiet);
    let built = runner.build_image(request, &mut line, Some(cancel.as_fd()));
    drop(line);
    let (facts, name) = built.map_err(|error| Failure::hinted(&error, error.hint()))?;
    tell(context, &facts, Some(&name), is_json)
}

/// The digest is the result; the rest is for whoever reads along.
fn tell(context: &Context, facts: &ImageFacts, name: Option<&ImageTag>, is_json: bool) -> Result<(), Failure> {
    if !context.is_quiet {
        complain(&closing_line(facts, name));
    }
    if is_json { out::print_json(facts) } else { out::print(&format!("{}\n", facts.digest)) }
}

fn tag(name: Option<&str>) -> Result<Option<ImageTag>, Failure> {
    name.map(str::parse).transpose().map_err(|e| Failure::new(format!("--name: {e}"), "such as --name tools:1"))
}

fn failure(error: ImagesError) -> Failure {
    let hint = error.hint();
    Failure::new(error, hint)
}

fn closing_line(facts: &ImageFacts, name: Option<&ImageTag>) -> String {
    let left_out = match facts.left_out {
        0 => String::new(),
        count => format!("; {count} devices, pipes or marks left out"),
    };
    let name = name.map_or_else(String::new, |name| format!(" as {name}"));
    format!("ringfence: image kept{name}: {} files, {}{left_out}", facts.files, out::bytes(facts.bytes))
}

fn list(context: &Context, is_json: bool) -> Result<(), Failure> {
    let listed = images(&context.home()?).map_err(failure)?;
    if is_json {
        return out::print_json(&listed);
    }
    let rows = listed.iter().map(row).collect();
    out::print(&out::table(&["names", "digest", "files", "size", "created"], rows))
}

fn row(image: &ListedImage) -> Vec<String> {
    let names: Vec<String> = image.names.iter().map(ToString::to_string).collect();
    let created = image.facts.created.as_deref().map(out::harmless).unwrap_or_default();
    let (digest, files) = (image.facts.digest.to_string(), image.facts.files.to_string());
    vec![names.join(", "), digest, files, out::bytes(image.facts.bytes), created]
}

fn remove(context: &Context, name: &str) -> Result<(), Failure> {
    let name: ImageName = name.parse().map_err(|e| Failure::new(e, "see `ringfence image ls`"))?;
    let removed = remove_image(&context.home()?, &name).map_err(failure)?;
    if !context.is_quiet {
        complain(&match removed {
            Some(digest) => format!("ringfence: removed {digest}"),
            None => format!("ringfence: removed the name {name}; its image has other names and stays"),
        });
    }
    Ok(())
}
