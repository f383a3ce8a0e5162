//! What a client hands in with a run, laid out in a folder of its own in the work folder of the home, and taken away with the run.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_control::{InputRequest, RunRequest};
use ringfence_evidence::Digest;
use ringfence_store::{Artifacts, Caller, Home, Index, RunId};

use super::request::{InputBody, RunBody, bytes};
use crate::error::ServeError;
use crate::problem::{Code, Problem};
use crate::serving::{Serving, viewer};

/// What the names of such folders begin with.
const PREFIX: &str = "handed-over-";

/// The folder, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct HandedOver {
    folder: PathBuf,
    serving: Arc<Serving>,
}

impl HandedOver {
    /// Lays out what a client gave, and names it in the request. Only for threads that may wait.
    pub(super) fn lay_out(serving: &Arc<Serving>, caller: &Caller, body: &RunBody, request: &mut RunRequest) -> Result<Self, Problem> {
        let name = RunId::new().map_err(|error| serving.failed(&error))?;
        let folder = serving.home().work().join(format!("{PREFIX}{name}"));
        DirBuilder::new().mode(0o700).create(&folder).map_err(|error| serving.failed(&error))?;
        let handed_over = Self { folder, serving: serving.clone() };
        request.inputs = handed_over.inputs(caller, &body.inputs.0)?;
        request.handed_over = Some(handed_over.folder.clone());
        if let Some(stdin) = body.stdin()? {
            let path = handed_over.write("stdin", &stdin)?;
            let file = File::open(path).map_err(|error| serving.failed(&error))?;
            request.stdin = Some(Arc::new(file.into()));
        }
        Ok(handed_over)
    }

    fn inputs(&self, caller: &Caller, inputs: &[InputBody]) -> Result<Vec<InputRequest>, Problem> {
        let mut requests: Vec<InputRequest> = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            let name = input_name(&input.name.0)?;
            if requests.iter().any(|before| before.name == name) {
                return Err(Problem::value("inputs", format!("two of them have the name `{}`", name.escape_debug()), "name each once"));
            }
            let given = self.given(caller, input)?;
            // The name inside is the client's; the one on the host is a number.
            requests.push(InputRequest { path: self.write(&number.to_string(), &given)?, name });
        }
        Ok(requests)
    }

    fn given(&self, caller: &Caller, input: &InputBody) -> Result<Vec<u8>, Problem> {
        let content = bytes("inputs", input.content.as_ref(), input.content_base64.as_ref())?;
        match (content, &input.artifact) {
            (Some(content), None) => Ok(content),
            (None, Some(digest)) => artifact(&self.serving, caller, &digest.0),
            (Some(_), Some(_)) | (None, None) => Err(Problem::value(
                "inputs",
                format!("`{}` has not exactly one of `content`, `content_base64` and `artifact`", input.name.0.escape_debug()),
                "give one of them",
            )),
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, Problem> {
        let path = self.folder.join(name);
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| file.write_all(content));
        written.map_err(|error| self.serving.failed(&error))?;
        Ok(path)
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            self.serving.log(&format!("`{}` cannot be removed yet: {error}", self.folder.display()));
        }
    }
}

/// One plain name of a file.
fn input_name(name: &str) -> Result<String, Problem> {
    let is_plain = !name.is_empty() && name != "." && name != ".." && name.len() <= 255 && !name.contains(['/', '\0']);
    match is_plain {
        true => Ok(name.to_owned()),
        false => Err(Problem::value(
            "inputs",
            format!("`{}` cannot be the name of an input", name.escape_debug()),
            "give it a plain name of at most 255 bytes",
        )),
    }
}

/// The bytes of an artifact that this caller sees.
fn artifact(serving: &Serving, caller: &Caller, digest: &str) -> Result<Vec<u8>, Problem> {
    let unknown =
        || Problem::value("inputs", format!("there is no artifact `{}` here", digest.escape_debug()), "see GET /v1/runs/{run}/artifacts");
    let digest: Digest = digest.parse().map_err(|_| unknown())?;
    let mut index = Index::open(serving.home()).map_err(|error| serving.failed(&error))?;
    if index.made_of(&viewer(caller), &digest).map_err(|error| serving.failed(&error))?.is_empty() {
        return Err(unknown());
    }
    let path = Artifacts::of(serving.home()).path(&digest);
    let content = fs::read(&path).map_err(|error| serving.failed(&error))?;
    match Digest::of(&content) == digest {
        true => Ok(content),
        false => Err(serving.failed(&format!("artifact {digest} is not what was exported: the store was changed"))),
    }
}

/// Takes away what an earlier server left: there is one server a home, so that nobody uses it any more.
pub(crate) fn clear_handed_over(home: &Home) -> Result<(), ServeError> {
    let file = |act, path: &Path| {
        let path = path.to_owned();
        move |source| ServeError::File { act, path, source }
    };
    let work = home.work();
    for entry in fs::read_dir(&work).map_err(file("read", &work))?.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            fs::remove_dir_all(entry.path()).map_err(file("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// What the registry says no to, in its words; anything else is ours.
pub(super) fn refused(serving: &Serving, error: &ringfence_control::RunError) -> Problem {
    match error {
        ringfence_control::RunError::Registry(registry) if !matches!(registry, ringfence_control::RegistryError::Store(_)) => {
            Problem::new(Code::AgentRefused, registry.to_string(), registry.hint())
        }
        other => serving.failed(other),
    }
}
