//! Python's simple index: a page of files for each package, and the files.
//!
//! pip and uv show their person nothing of a refused page. So they are given a page with one file whose version says what is the matter, and
//! asking for that file gives the reason. Files that a rule refuses stay on the page as yanked ones with the reason, where that helps.

mod html;
mod page;
mod render;

use std::sync::Arc;

use ringfence_policy::{Ecosystem, PackageName, PackageVersion};

use self::page::PythonFile;
use super::answer::{self, Answer, Denied};
use super::archive::Format;
use super::client::Page;
use super::digest::Digests;
use super::file::Wanted;
use super::index::{Index, blocking};
use super::rules::{Candidate, Refusal, Rule};

const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// The files of one package, each with what the rules say of it.
pub(super) struct Offer {
    name: PackageName,
    files: Vec<(PythonFile, Result<(), Refusal>)>,
}

impl Offer {
    /// Why there is nothing at all, if so.
    fn nothing(&self) -> Option<&Refusal> {
        let is_empty = self.files.iter().all(|(_, verdict)| verdict.is_err());
        self.files.iter().rev().find_map(|(_, verdict)| verdict.as_ref().err()).filter(|_| is_empty)
    }
}

impl Index {
    pub(super) async fn python(self: &Arc<Self>, path: &[&str], accept: &str, is_explained: bool) -> Answer {
        match path {
            ["simple", name] | ["simple", name, ""] => match self.python_offer(name).await {
                Ok(offer) => render::offer(&offer, accept, is_explained),
                Err(denied @ (Denied::Refused(_) | Denied::Upstream { .. })) if is_explained => render::explained(name, &denied, accept),
                Err(denied) => denied.answer(),
            },
            ["files", name, file] => match self.python_file(name, file).await {
                Ok(answer) => answer,
                Err(denied) if is_explained => denied.answer_once(),
                Err(denied) => denied.answer(),
            },
            _ => Denied::Absent("such path".to_owned()).answer(),
        }
    }

    async fn python_offer(self: &Arc<Self>, name: &str) -> Result<Offer, Denied> {
        let name = self.allowed_name(Ecosystem::Python, name).await?;
        let client = self.client(Ecosystem::Python)?;
        let url = client.upstream.url.join(&format!("{name}/")).map_err(|_| Denied::Absent(name.to_string()))?;
        let said = self.page(Ecosystem::Python, &url, ACCEPT).await?;
        let index = Arc::clone(self);
        let offer = blocking(move || index.python_judged(name, &said)).await?;
        self.tell_hidden(&offer).await;
        Ok(offer)
    }

    fn python_judged(&self, name: PackageName, said: &Page) -> Result<Offer, Denied> {
        let unreadable = || Denied::Upstream { ecosystem: Ecosystem::Python, why: "its answer is no list of files".to_owned() };
        let files = page::parse(&name, said).ok_or_else(unreadable)?;
        let rules = self.rules(Ecosystem::Python);
        let judged = files.into_iter().map(|file| {
            let verdict = rules.file(&file.candidate(&name));
            (file, verdict)
        });
        Ok(Offer { files: judged.collect(), name })
    }

    /// A version is left out if none of its files is had.
    async fn tell_hidden(&self, offer: &Offer) {
        let has_any = |version: &PackageVersion| offer.files.iter().any(|(file, verdict)| file.version == *version && verdict.is_ok());
        let refused = offer.files.iter().filter_map(|(file, verdict)| Some((&file.version, verdict.as_ref().err()?)));
        let left_out = refused.filter(|(version, _)| !has_any(version));
        self.tell_left_out_of(Ecosystem::Python, &offer.name, left_out, offer.nothing().is_some()).await;
    }

    async fn python_file(self: &Arc<Self>, name: &str, file_name: &str) -> Result<Answer, Denied> {
        let offer = self.python_offer(name).await?;
        if let Some(refusal) = offer.nothing().filter(|_| render::is_explanation(file_name)) {
            return Err(refusal.clone().into());
        }
        let (file_name, is_metadata) = file_name.strip_suffix(".metadata").map_or((file_name, false), |file| (file, true));
        let found = offer.files.into_iter().find(|(file, _)| file.file_name == file_name);
        let (file, verdict) = found.ok_or_else(|| Denied::Absent(file_name.to_owned()))?;
        if let Err(refusal) = verdict {
            return Err(self.refuse_version(Ecosystem::Python, &offer.name, &file.version, refusal).await);
        }
        match is_metadata {
            true => self.python_metadata(&file).await,
            false => self.file(file.wanted(offer.name)).await,
        }
    }

    /// What a wheel says of itself, apart from the wheel: checked by a hash of its own.
    async fn python_metadata(self: &Arc<Self>, file: &PythonFile) -> Result<Answer, Denied> {
        let absent = || Denied::Absent(format!("{}.metadata", file.file_name));
        let hash = file.metadata.as_ref().ok_or_else(absent)?;
        let mut url = file.url.clone();
        url.set_path(&format!("{}.metadata", file.url.path()));
        let said = self.page(Ecosystem::Python, &url, "*/*").await?;
        let digests = Digests::of(&said.body[..]).map_err(|_| Denied::Storage)?;
        match digests.has(hash) {
            true => Ok(answer::page("application/octet-stream", said.body)),
            false => {
                let what = format!("metadata of {}", file.file_name);
                Err(Refusal::new(what, "does not match its hash", Rule::IndexHash).into())
            }
        }
    }
}

impl PythonFile {
    fn candidate<'a>(&'a self, name: &'a PackageName) -> Candidate<'a> {
        Candidate {
            name,
            version: &self.version,
            published_at: self.published_at,
            hashes: &self.hashes,
            is_source: self.is_source,
            has_scripts: false,
        }
    }

    fn wanted(self, name: PackageName) -> Wanted {
        Wanted {
            ecosystem: Ecosystem::Python,
            name,
            version: self.version,
            what: if self.is_source { "sdist" } else { "wheel" },
            format: if self.file_name.ends_with(".tar.gz") { Format::Tarball } else { Format::Zip },
            file: self.file_name,
            url: self.url,
            hashes: self.hashes,
        }
    }
}
