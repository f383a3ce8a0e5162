//! Asks a registry. Every request has a limit of time and of bytes; every redirect is looked at before it is followed.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};
use ringfence_policy::ImageDigest;
use serde::Deserialize;
use tokio::runtime::Runtime;

use super::challenge::{self, Challenge};
use super::credential::Credential;
use super::place::{LOCALHOST, Place, is_loopback};

/// Why a registry did not give what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The client could not be made.
    #[error("preparing to ask a registry: {0}")]
    Client(String),
    /// There was no answer, or it broke off.
    #[error("asking `{host}`: {cause}")]
    Connection {
        /// Who was asked.
        host: String,
        /// What happened.
        cause: String,
    },
    /// There is no such image, or it is not for everybody.
    #[error("`{host}` refuses {what}: {status}")]
    Status {
        /// Who was asked.
        host: String,
        /// For what.
        what: String,
        /// What it said.
        status: StatusCode,
    },
    /// It sends somewhere that is not gone to.
    #[error("`{host}` {cause}")]
    Elsewhere {
        /// Who was asked.
        host: String,
        /// Where it sends.
        cause: String,
    },
    /// It sends more than there should be.
    #[error("`{host}` sends more than {most} bytes of {what}")]
    TooMuch {
        /// Who was asked.
        host: String,
        /// For what.
        what: String,
        /// The most.
        most: u64,
    },
    /// What was fetched could not be written.
    #[error("writing what was fetched: {0}")]
    Write(#[source] std::io::Error),
}

impl RegistryError {
    /// What would help.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Client(_) => "see `ringfence doctor`",
            Self::Connection { .. } => {
                "look at the name, the port, and whether this machine reaches it; plain http is spoken to loopback addresses only"
            }
            Self::Status { status, .. } if *status == StatusCode::UNAUTHORIZED || *status == StatusCode::FORBIDDEN => {
                "log in with the usual client: the credential under `auths` in ~/.docker/config.json is used; programs that keep credentials are not run"
            }
            Self::Status { .. } => "look at the name and the tag",
            Self::Elsewhere { .. } | Self::TooMuch { .. } => "ask whoever keeps the registry",
            Self::Write(_) => "make room on the file system of RINGFENCE_HOME",
        }
    }
}

const CONNECT: Duration = Duration::from_secs(10);
/// Without a byte.
const IDLE: Duration = Duration::from_secs(30);
/// One request as a whole: whoever sends a byte at a time is not waited for without end.
const WHOLE: Duration = Duration::from_secs(2 * 60 * 60);
const REDIRECTS: usize = 5;
/// The most of an answer that gives out a token.
const TOKEN: u64 = 256 << 10;

/// The forms of manifest that are read.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// One image in a registry.
#[derive(Debug)]
pub struct Registry {
    place: Place,
    runtime: Runtime,
    client: Client,
    credential: Option<Credential>,
    /// What is sent since it was asked for.
    authorization: Option<Credential>,
}

impl Registry {
    /// Prepares to ask. The credential is sent only once the registry asks for one.
    pub fn new(place: Place, credential: Option<Credential>) -> Result<Self, RegistryError> {
        let failed = |error: &dyn std::fmt::Display| RegistryError::Client(error.to_string());
        // Whoever installed one before has installed the same.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(IDLE)
            .timeout(WHOLE)
            .redirect(reqwest::redirect::Policy::none())
            .resolve(LOCALHOST.0, SocketAddr::from((LOCALHOST.1, 0)))
            .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")));
        if place.is_loopback() {
            builder = builder.no_proxy();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| failed(&e))?;
        Ok(Self { client: builder.build().map_err(|e| failed(&e))?, place, runtime, credential, authorization: None })
    }

    /// The manifest or index that the place names, or one by its digest.
    pub fn manifest(&mut self, digest: Option<&ImageDigest>, most: u64) -> Result<Vec<u8>, RegistryError> {
        let reference = digest.map_or(self.place.reference(), ImageDigest::as_str);
        let (path, mut bytes) = (format!("/manifests/{reference}"), Vec::new());
        self.fetch(&path, "the manifest", most, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes a blob of so many bytes.
    pub fn blob(&mut self, digest: &ImageDigest, bytes: u64, to: &mut dyn Write) -> Result<(), RegistryError> {
        self.fetch(&format!("/blobs/{digest}"), digest.as_str(), bytes, to)
    }

    fn fetch(&mut self, path: &str, what: &str, most: u64, to: &mut dyn Write) -> Result<(), RegistryError> {
        let url = url(&format!("{}{path}", self.place.base()), self.place.host())?;
        let asking = Asking { client: &self.client, place: &self.place, credential: self.credential.as_ref() };
        self.runtime.block_on(async {
            let mut response = asking.get(&url, self.authorization.as_ref()).await?;
            // Only the registry itself says who gives out its tokens.
            if response.status() == StatusCode::UNAUTHORIZED && *response.url() == url {
                self.authorization = asking.authorize(&response).await?;
                response = asking.get(&url, self.authorization.as_ref()).await?;
            }
            if response.status() != StatusCode::OK {
                return Err(RegistryError::Status { host: asking.host(), what: what.to_owned(), status: response.status() });
            }
            asking.copy(response, what, most, to).await
        })
    }
}

/// One question, with all that it may lead to.
struct Asking<'a> {
    client: &'a Client,
    place: &'a Place,
    credential: Option<&'a Credential>,
}

impl Asking<'_> {
    fn host(&self) -> String {
        self.place.host().to_owned()
    }

    /// Asks, and follows redirects, to which no credential goes: whoever redirects has put into the address what is needed there.
    async fn get(&self, url: &Url, authorization: Option<&Credential>) -> Result<Response, RegistryError> {
        let mut response = self.send(url, authorization).await?;
        let mut at = url.clone();
        for _ in 0..REDIRECTS {
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).and_then(|to| at.join(to).ok());
            at = to.ok_or_else(|| self.elsewhere("redirects to nowhere"))?;
            self.check(&at)?;
            response = self.send(&at, None).await?;
        }
        match response.status().is_redirection() {
            true => Err(self.elsewhere(&format!("redirects more than {REDIRECTS} times"))),
            false => Ok(response),
        }
    }

    async fn send(&self, url: &Url, authorization: Option<&Credential>) -> Result<Response, RegistryError> {
        let mut request = self.client.get(url.clone()).header(ACCEPT, MANIFESTS);
        if let Some(credential) = authorization {
            let unfit = |_| self.elsewhere("gives out a token that is none");
            let mut value = HeaderValue::from_str(credential.expose()).map_err(unfit)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.send().await.map_err(|error| self.broken(error))
    }

    /// What to send from now on.
    async fn authorize(&self, response: &Response) -> Result<Option<Credential>, RegistryError> {
        let header = response.headers().get(WWW_AUTHENTICATE).and_then(|header| header.to_str().ok());
        match header.and_then(challenge::parse) {
            Some(Challenge::Basic) | None => Ok(self.credential.cloned()),
            Some(Challenge::Bearer { realm, service, scope }) => {
                let mut url = url(&realm, self.place.host())?;
                self.check(&url)?;
                let fields = [("service", service), ("scope", scope)];
                url.query_pairs_mut().extend_pairs(fields.iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value))));
                self.token(&url).await.map(Some)
            }
        }
    }

    async fn token(&self, url: &Url) -> Result<Credential, RegistryError> {
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let response = self.send(url, self.credential).await?;
        if response.status() != StatusCode::OK {
            return Err(RegistryError::Status { host: self.host(), what: "a token".into(), status: response.status() });
        }
        let mut bytes = Vec::new();
        self.copy(response, "a token", TOKEN, &mut bytes).await?;
        let token = serde_json::from_slice::<Token>(&bytes).ok().and_then(|token| token.token.or(token.access_token));
        token.map(|token| Credential::of_token(&token)).ok_or_else(|| self.elsewhere("gives out no token"))
    }

    async fn copy(&self, mut response: Response, what: &str, most: u64, to: &mut dyn Write) -> Result<(), RegistryError> {
        let mut left = most;
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
            let too_much = || RegistryError::TooMuch { host: self.host(), what: what.to_owned(), most };
            left = left.checked_sub(chunk.len() as u64).ok_or_else(too_much)?;
            to.write_all(&chunk).map_err(RegistryError::Write)?;
        }
        Ok(())
    }

    /// Whoever is asked in the registry's place has to be as private as the registry itself.
    fn check(&self, url: &Url) -> Result<(), RegistryError> {
        let is_here = url.scheme() == "http" && self.place.is_loopback() && url.host_str().is_some_and(is_loopback);
        let has_account = !url.username().is_empty() || url.password().is_some();
        match (url.scheme() == "https" || is_here) && !has_account {
            true => Ok(()),
            false => {
                Err(self.elsewhere(&format!("sends to {}://{}, which is not gone to", url.scheme(), url.host_str().unwrap_or_default())))
            }
        }
    }

    fn elsewhere(&self, cause: &str) -> RegistryError {
        RegistryError::Elsewhere { host: self.host(), cause: cause.to_owned() }
    }

    /// The address may hold what is nobody else's business.
    fn broken(&self, error: reqwest::Error) -> RegistryError {
        let error = error.without_url();
        let causes = std::iter::successors(std::error::Error::source(&error), |error| error.source());
        let cause = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
        RegistryError::Connection { host: self.host(), cause }
    }
}

fn url(text: &str, host: &str) -> Result<Url, RegistryError> {
    Url::parse(text)
        .map_err(|error| RegistryError::Elsewhere { host: host.to_owned(), cause: format!("names an address that is none: {error}") })
}
