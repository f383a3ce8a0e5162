//! Asking: one connection at a time, one request after another, each answered within bounds.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response};
use ringfence_control::Secret;
use ringfence_evidence::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use super::events::Events;
use super::file::FileBody;
use super::{RemoteError, ServerAddress, ServerEvent};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take that only says what there is.
const LOOK: Duration = Duration::from_secs(120);
/// How long a stream of events may be silent: the server says something every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// How often something else is looked at while a stream says nothing.
const TICK: Duration = Duration::from_millis(100);
/// The largest answer that is read as a whole: a report with all that a run printed.
const MOST_ANSWER: u64 = 256 << 20;
/// The largest explanation of what went wrong.
const MOST_PROBLEM: u64 = 64 << 10;
/// What JSON is called.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A server, and what it takes to ask it.
#[derive(Debug)]
pub(crate) struct Server {
    address: ServerAddress,
    key: HeaderValue,
    client: Client,
    runtime: Runtime,
}

impl Server {
    /// Prepares to ask; nothing is sent yet. `certificates` is a file in PEM form whose authorities are trusted beside those of this host.
    pub(crate) fn new(address: ServerAddress, key: Option<&Secret>, certificates: Option<&PathBuf>) -> Result<Self, RemoteError> {
        let failed = |error: &dyn std::fmt::Display| RemoteError::Client(error.to_string());
        // Whoever installed one before has installed the same.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")));
        if address.is_loopback() {
            builder = builder.no_proxy();
        }
        if let Some(path) = certificates {
            builder = builder.tls_certs_merge(authorities(path)?);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| failed(&e))?;
        let key = key.ok_or_else(|| RemoteError::NoKey { server: address.to_string() })?;
        Ok(Self { key: bearer(key)?, client: builder.build().map_err(|e| failed(&e))?, address, runtime })
    }

    /// Asks for something.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, RemoteError> {
        self.answer(self.asking(Method::GET, path).timeout(LOOK))
    }

    /// Asks for something to be done.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<T, RemoteError> {
        let body = serde_json::to_vec(body).map_err(|source| self.not_understood(source))?;
        self.answer(self.asking(Method::POST, path).header(CONTENT_TYPE, JSON).body(body))
    }

    /// Asks something of what goes on; that it is over by now is as good.
    pub(crate) fn tell(&self, path: &[&str], body: &serde_json::Value) -> Result<(), RemoteError> {
        let path: Vec<String> = path.iter().map(|segment| (*segment).to_owned()).collect();
        self.runtime.block_on(self.say(&path, body))
    }

    /// Asks for something to be ended, and for what came of it.
    pub(crate) fn end<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, RemoteError> {
        self.answer(self.asking(Method::DELETE, path))
    }

    /// Asks for something to be removed.
    pub(crate) fn remove(&self, path: &[&str]) -> Result<(), RemoteError> {
        self.whole(self.asking(Method::DELETE, path)).map(drop)
    }

    /// Writes the bytes of an artifact, which are those of its digest or an error; what was written by then is to be thrown away.
    pub(crate) fn artifact(&self, digest: &Digest, to: &mut dyn Write) -> Result<(), RemoteError> {
        let text = digest.to_string();
        let mut hashing = Hashing { to, hasher: Sha256::new() };
        self.copy(self.asking(Method::GET, &["artifacts", &text]), &mut hashing)?;
        match Digest::from_bytes(hashing.hasher.finalize().into()) == *digest {
            true => Ok(()),
            false => Err(RemoteError::OtherBytes { server: self.address.to_string(), digest: text }),
        }
    }

    /// Writes the bytes of a file of a session.
    pub(crate) fn fetch(&self, session: &str, path: &str, to: &mut dyn Write) -> Result<(), RemoteError> {
        self.copy(self.asking(Method::GET, &["sessions", session, "files"]).query(&[("path", path)]), to)
    }

    /// Puts a file into a session.
    pub(crate) fn put<T: DeserializeOwned>(&self, session: &str, path: &str, file: File) -> Result<T, RemoteError> {
        let body = FileBody::new(file).map_err(|source| RemoteError::Local { act: "reading the file".into(), source })?;
        let asking = self.asking(Method::PUT, &["sessions", session, "files"]).query(&[("path", path)]);
        self.answer(asking.header(CONTENT_TYPE, "application/octet-stream").body(reqwest::Body::wrap(body)))
    }

    /// Passes on events until `each` says that one was the last. `also` is called ten times a second, and may say what the server is to be asked
    /// meanwhile: a path and a body.
    pub(crate) fn follow(
        &self,
        path: &[&str],
        mut each: impl FnMut(ServerEvent) -> Result<bool, RemoteError>,
        mut also: impl FnMut() -> Option<(Vec<String>, serde_json::Value)>,
    ) -> Result<(), RemoteError> {
        self.runtime.block_on(async {
            let mut response = self.sent(self.asking(Method::GET, path).header(ACCEPT, "text/event-stream")).await?;
            let (mut events, mut heard_at) = (Events::default(), Instant::now());
            loop {
                if let Some((path, body)) = also() {
                    self.say(&path, &body).await?;
                }
                let Ok(piece) = tokio::time::timeout(TICK, response.chunk()).await else {
                    if heard_at.elapsed() > SILENCE {
                        return Err(self.broken_off());
                    }
                    continue;
                };
                heard_at = Instant::now();
                let piece = piece.map_err(|source| self.unreachable(source))?.ok_or_else(|| self.broken_off())?;
                for event in events.take(&piece).ok_or_else(|| self.broken_off())? {
                    if each(event)? {
                        return Ok(());
                    }
                }
            }
        })
    }

    /// Asks something of what goes on; that it is over by now is as good.
    async fn say(&self, path: &[String], body: &serde_json::Value) -> Result<(), RemoteError> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let asking = self.asking(Method::POST, &path).header(CONTENT_TYPE, JSON).body(body.to_string());
        match self.sent(asking).await {
            Err(error) if !error.is_problem("conflict") => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn asking(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.client.request(method, self.address.at(path)).header(AUTHORIZATION, self.key.clone())
    }

    /// Sends a request; any answer but what was asked for is an error.
    async fn sent(&self, asking: RequestBuilder) -> Result<Response, RemoteError> {
        let response = asking.send().await.map_err(|source| self.unreachable(source))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let problem = match kind.is_some_and(|kind| kind == "application/problem+json") {
            true => serde_json::from_slice(&self.read(response, MOST_PROBLEM).await?).ok(),
            false => None,
        };
        let server = self.address.to_string();
        Err(problem.map_or(RemoteError::Status { server, status: status.as_u16() }, RemoteError::Problem))
    }

    async fn read(&self, mut response: Response, most: u64) -> Result<Vec<u8>, RemoteError> {
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|source| self.unreachable(source))? {
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > most {
                return Err(RemoteError::TooLarge { server: self.address.to_string(), most });
            }
        }
        Ok(bytes)
    }

    fn whole(&self, asking: RequestBuilder) -> Result<Vec<u8>, RemoteError> {
        self.runtime.block_on(async { self.read(self.sent(asking).await?, MOST_ANSWER).await })
    }

    fn answer<T: DeserializeOwned>(&self, asking: RequestBuilder) -> Result<T, RemoteError> {
        serde_json::from_slice(&self.whole(asking)?).map_err(|source| self.not_understood(source))
    }

    fn copy(&self, asking: RequestBuilder, to: &mut dyn Write) -> Result<(), RemoteError> {
        self.runtime.block_on(async {
            let mut response = self.sent(asking).await?;
            while let Some(piece) = response.chunk().await.map_err(|source| self.unreachable(source))? {
                to.write_all(&piece).map_err(|source| RemoteError::Local { act: "writing what came".into(), source })?;
            }
            Ok(())
        })
    }

    /// What an answer of another form is.
    pub(crate) fn not_understood(&self, source: serde_json::Error) -> RemoteError {
        RemoteError::Answer { server: self.address.to_string(), source }
    }

    fn unreachable(&self, source: reqwest::Error) -> RemoteError {
        RemoteError::Unreachable { server: self.address.to_string(), source: source.without_url() }
    }

    fn broken_off(&self) -> RemoteError {
        RemoteError::BrokenOff { server: self.address.to_string() }
    }
}

fn authorities(path: &Path) -> Result<Vec<reqwest::Certificate>, RemoteError> {
    let fail = |why: String| RemoteError::Certificates { path: path.to_owned(), why };
    let bundle = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
    let found = reqwest::Certificate::from_pem_bundle(&bundle).map_err(|error| fail(error.to_string()))?;
    if found.is_empty() { Err(fail("it holds no certificate".into())) } else { Ok(found) }
}

/// The key as it is sent, which no debug output shows.
fn bearer(key: &Secret) -> Result<HeaderValue, RemoteError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose().trim())).map_err(|_| RemoteError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Hashes what passes.
struct Hashing<'a> {
    to: &'a mut dyn Write,
    hasher: Sha256,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
