//! Builds an image from a recipe: pinned files, laid over a base. No program runs outside of a sandbox: Debian packages are only unpacked, and Python's
//! wheels are installed by a recorded run that sees the base, whose one artifact is imported like any stranger's archive.

mod files;
mod pins;
mod recipe;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use ringfence_evidence::RunEnd;
use ringfence_image::{Caps, Facts, ImageError, Images, Over};
use ringfence_isolation::OsText;
use ringfence_policy::{AgentId, ImageName, ImageTag, Limits, Profile, Storage};

use crate::error::RunError;
use crate::images::{self, NoImage};
use crate::profiles::ProfileText;
use crate::report::RunReport;
use crate::request::{Attachments, InputRequest, OutputTo, Progress, RunRequest};
use crate::run::Runner;
use files::{Fetch, Folder};
use pins::Pins;
use recipe::{Pinned, Recipe};

/// What is built.
#[derive(Debug)]
pub struct BuildRequest {
    /// The name of a shipped recipe, or a path.
    pub recipe: String,
    /// The name of the image; the recipe's own otherwise.
    pub name: Option<ImageTag>,
    /// Where the pinned files are. Without it, wheels are fetched through the operator's own index.
    pub files: Option<PathBuf>,
}

/// Why an image was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No such recipe.
    #[error("there is no recipe `{name}`; there are {known}")]
    NoRecipe {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// It does not read.
    #[error("{file}: {cause}")]
    Recipe {
        /// The recipe.
        file: String,
        /// What is wrong.
        cause: String,
    },
    /// A file could not be used.
    #[error("read `{path}`: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A pinned file is not there.
    #[error("`{name}` {version} is not there: no file has one of its digests")]
    Missing {
        /// Which.
        name: String,
        /// Its version.
        version: String,
    },
    /// The base is not here, or policy does not let it be seen.
    #[error("{0}")]
    Refused(String, String),
    /// The run that installs did not end well.
    #[error("run {run}, which installs the wheels, {end}")]
    Install {
        /// The run.
        run: String,
        /// How it ended.
        end: String,
    },
    /// The run could not be recorded.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The image could not be kept.
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl BuildError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::NoRecipe { .. } => "name one of these, or the path of a file that ends in .toml".into(),
            Self::Recipe { .. } => "images/python.toml in the source is a complete example".into(),
            Self::File { .. } => "look at the file named above".into(),
            Self::Missing { .. } => "name the folder that has it: --files DIR".into(),
            Self::Refused(_, hint) => hint.clone(),
            Self::Install { run, .. } => format!("`ringfence evidence show {run}` says how far it came"),
            Self::Run(error) => error.hint(),
            Self::Image(error) => error.hint(),
        }
    }
}

/// Where programs are, if the base says nothing else.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const INSTALL: &str = include_str!("install.py");
const LAYER: &str = "layer.tar";

impl Runner {
    /// Builds an image. `cancel` becomes readable when the caller wants to stop.
    pub fn build_image(
        &self,
        request: &BuildRequest,
        progress: &mut dyn Progress,
        cancel: Option<BorrowedFd<'_>>,
    ) -> Result<(Facts, ImageTag), BuildError> {
        let recipe = Recipe::find(&request.recipe)?;
        let files = request.files.as_deref().map(|folder| Folder::read(folder).map_err(|source| at(folder, source))).transpose()?;
        let mut layers = packages(&recipe, files.as_ref())?;
        if recipe.python().next().is_some() {
            layers.push(self.install(&recipe, files.as_ref(), progress, cancel)?);
        }
        let base = Images::of(&self.home.images());
        let base_name = match &recipe.base {
            ImageName::Host => ImageName::Host,
            named => ImageName::Digest(base.find(named)?.facts.digest.clone()),
        };
        let name = request.name.clone().unwrap_or_else(|| recipe.name.clone());
        let shown = images::find_named(&self.home, &base_name).map_err(refused)?;
        let over = Over {
            base: &base_name,
            base_root: &shown.image.root,
            files: &layers,
            environment: environment(&recipe, &shown.image.environment),
        };
        let facts = base.import_over(&over, Some(&name), Caps::default(), &mut |what, done| progress.tell(what, done))?;
        Ok((facts, name))
    }

    /// The run that installs wheels; its artifact is the layer.
    fn install(
        &self,
        recipe: &Recipe,
        files: Option<&Folder>,
        progress: &mut dyn Progress,
        cancel: Option<BorrowedFd<'_>>,
    ) -> Result<PathBuf, BuildError> {
        let pins = Pins::write(&recipe.requirements())?;
        let mut inputs = wheels(recipe, files)?;
        inputs.push(InputRequest { path: pins.path(), name: "requirements.txt".into() });
        let request = run_request(recipe, inputs, files.is_none())?;
        let report = self.run(&request, Attachments { output: OutputTo::Report, progress, cancel })?;
        self.layer(&report)
    }

    fn layer(&self, report: &RunReport) -> Result<PathBuf, BuildError> {
        let artifact = report.artifacts.iter().find(|artifact| artifact.path == LAYER).and_then(|artifact| artifact.sha256.parse().ok());
        match (&report.end, artifact) {
            (RunEnd::Exited { code: 0 }, Some(digest)) => Ok(self.artifacts.path(&digest)),
            (RunEnd::Refused { rule, hint, .. }, _) => Err(BuildError::Refused(rule.clone(), hint.clone())),
            (end, _) => Err(BuildError::Install { run: report.run.clone(), end: ended(end, report.stderr.as_deref().unwrap_or_default()) }),
        }
    }
}

fn at(path: &Path, source: io::Error) -> BuildError {
    BuildError::File { path: path.to_owned(), source }
}

fn refused(error: NoImage) -> BuildError {
    match error {
        NoImage::Refused(refusal) => BuildError::Refused(refusal.rule, refusal.hint),
        NoImage::Failed(source) => BuildError::Refused(source.to_string(), "see `ringfence doctor`".into()),
    }
}

/// The end in words, with what the program said last.
fn ended(end: &RunEnd, said: &str) -> String {
    let said = said.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("; ");
    let end = match end {
        RunEnd::Exited { code } => format!("exited {code}"),
        RunEnd::Signaled { signal } => format!("was ended by {signal}"),
        RunEnd::Limit { limit } => format!("met the {limit} limit"),
        RunEnd::Refused { rule, .. } => format!("was refused: {rule}"),
        RunEnd::Closed { by } => format!("was closed by {}", by.word()),
        RunEnd::Failed { step, cause } => format!("failed at `{step}`: {}", cause.as_deref().unwrap_or("no reason is known")),
    };
    if said.is_empty() { end } else { format!("{end}: {}", OsText::from(said.as_str())) }
}

/// Debian packages, each by its one file.
fn packages(recipe: &Recipe, files: Option<&Folder>) -> Result<Vec<PathBuf>, BuildError> {
    recipe.debian().map(|pinned| found(pinned, files).into_iter().next().ok_or_else(|| missing(pinned))).collect()
}

/// Wheels as inputs, under the names that they have; none where the index gives them.
fn wheels(recipe: &Recipe, files: Option<&Folder>) -> Result<Vec<InputRequest>, BuildError> {
    let mut inputs = Vec::new();
    for pinned in recipe.python().filter(|_| files.is_some()) {
        let paths = found(pinned, files);
        if paths.is_empty() {
            return Err(missing(pinned));
        }
        let named = paths.into_iter().filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)));
        inputs.extend(named.map(|(name, path)| InputRequest { path, name }));
    }
    Ok(inputs)
}

/// Every file of a pin that is there: which of them is for this machine is seen by its name, inside.
fn found(pinned: &Pinned, files: Option<&Folder>) -> Vec<PathBuf> {
    let fetch = |folder: &Folder| pinned.sha256.iter().filter_map(|sha256| folder.fetch(&pinned.name, &pinned.version, sha256)).collect();
    files.map(fetch).unwrap_or_default()
}

fn missing(pinned: &Pinned) -> BuildError {
    BuildError::Missing { name: pinned.name.clone(), version: pinned.version.clone() }
}

fn run_request(recipe: &Recipe, inputs: Vec<InputRequest>, is_fetching: bool) -> Result<RunRequest, BuildError> {
    let packages = if is_fetching { "[packages]\npython = \"locked\"\n" } else { "" };
    let text = format!("image = \"{}\"\n{}{packages}", recipe.base, include_str!("profile.toml"));
    let profile = Profile::parse("image-build", &text).map_err(RunError::Profile)?;
    let programs = recipe.programs().map(|(name, place)| OsText::from(format!("{name}={place}").as_str()));
    Ok(RunRequest {
        profile: ProfileText { profile, text },
        agent: AgentId::local(),
        inputs,
        project: None,
        reveal: Vec::new(),
        environment: Vec::new(),
        without_network: false,
        destinations: Vec::new(),
        limits: Limits::default(),
        exports: LAYER.parse().into_iter().collect(),
        tier: None,
        storage: Some(Storage::Disk),
        state: None,
        from: None,
        sensitivity: None,
        command: ["python3", "-I", "-c", INSTALL].map(OsText::from).into_iter().chain(programs).collect(),
        has_stdin: false,
        stdin: None,
        tenant: None,
        handed_over: None,
        known_secrets: Vec::new(),
        homes: Vec::new(),
    })
}

/// Where the image's programs and modules are.
fn environment(recipe: &Recipe, base: &[(String, String)]) -> BTreeMap<String, String> {
    let of_base = |name: &str| base.iter().find(|(set, _)| set == name).map(|(_, value)| value.as_str());
    let has_python = recipe.python().next().is_some();
    let path = has_python.then_some("/opt/python/bin").into_iter().chain([of_base("PATH").unwrap_or(PATH)]);
    let path = path.collect::<Vec<_>>().join(":");
    let modules = has_python.then(|| ("/opt/python".to_owned(), of_base("PYTHONPATH")));
    let modules = modules.map(|(own, base)| base.map_or(own.clone(), |base| format!("{own}:{base}")));
    [("PATH".to_owned(), path)].into_iter().chain(modules.map(|modules| ("PYTHONPATH".to_owned(), modules))).collect()
}
