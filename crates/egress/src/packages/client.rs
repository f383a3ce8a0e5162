//! Asking one upstream index: bounded in time and size, with the operator's credentials for the index itself and nobody else.
//!
//! What a proxy of the operator's own environment is for, it is used for here too.

use std::io;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Response, StatusCode, Url, header};
use tokio::io::AsyncWriteExt as _;

use super::cache::Draft;
use super::digest::{Digester, Digests};
use super::limits::IndexLimits;
use super::upstreams::Upstream;

const MOST_REDIRECTS: usize = 5;

/// Why nothing was had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("there is nothing at this address")]
    Absent,
    #[error("the index answers with status {0}")]
    Status(u16),
    #[error("the index cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("the answer took longer than {} s", .0.as_secs())]
    Slow(Duration),
    #[error("the answer is larger than {0} bytes")]
    Large(u64),
    #[error("the answer cannot be kept")]
    Keep(#[source] io::Error),
    #[error("an index on https names a file without it")]
    Downgrade,
}

/// What an index said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where it was in the end: links are relative to this.
    pub(crate) url: Url,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// Somebody who asks one index.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    pub(crate) upstream: Upstream,
    limits: IndexLimits,
}

/// Why there can be no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("certificates in `{}` cannot be used", path.display())]
    Certificates {
        path: std::path::PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("making a client")]
    Build(#[source] reqwest::Error),
}

impl Client {
    pub(crate) fn new(upstream: Upstream, limits: IndexLimits) -> Result<Self, ClientError> {
        // The provider is one for the process; that somebody has installed one already is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = reqwest::Client::builder()
            .connect_timeout(limits.connect)
            .read_timeout(limits.idle)
            .redirect(Policy::custom(redirect))
            .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &upstream.certificates {
            let fail = |source| ClientError::Certificates { path: path.clone(), source };
            let bundle = Certificate::from_pem_bundle(&std::fs::read(path).map_err(fail)?);
            builder = builder.tls_certs_merge(bundle.map_err(|error| fail(io::Error::other(error)))?);
        }
        Ok(Self { http: builder.build().map_err(ClientError::Build)?, upstream, limits })
    }

    /// Asks for a page, whole.
    pub(crate) async fn page(&self, url: &Url, accept: &str) -> Result<Page, FetchError> {
        within(self.limits.metadata, async {
            let mut response = self.get(url, accept).await?;
            let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let (content_type, url) = (content_type.unwrap_or_default().to_owned(), response.url().clone());
            let mut body = Vec::new();
            while let Some(chunk) = next(&mut response).await? {
                body.extend_from_slice(&chunk);
                check_size(body.len() as u64, self.limits.metadata_bytes)?;
            }
            Ok(Page { url, content_type, body })
        })
        .await
    }

    /// Fetches a file into a draft, hashing as it goes.
    pub(crate) async fn file(&self, url: &Url, mut draft: Draft) -> Result<(Draft, Digests), FetchError> {
        within(self.limits.file, async {
            let mut response = self.get(url, "*/*").await?;
            check_size(response.content_length().unwrap_or_default(), self.limits.file_bytes)?;
            let (mut digester, mut bytes) = (Digester::default(), 0);
            while let Some(chunk) = next(&mut response).await? {
                bytes += chunk.len() as u64;
                check_size(bytes, self.limits.file_bytes)?;
                digester.update(&chunk);
                draft.file.write_all(&chunk).await.map_err(FetchError::Keep)?;
            }
            draft.file.flush().await.map_err(FetchError::Keep)?;
            Ok((draft, digester.finish()))
        })
        .await
    }

    async fn get(&self, url: &Url, accept: &str) -> Result<Response, FetchError> {
        if is_downgrade(&self.upstream.url, url) {
            return Err(FetchError::Downgrade);
        }
        let mut request = self.http.get(url.clone()).header(header::ACCEPT, accept);
        if let Some(secret) = self.upstream.authorization_for(url) {
            request = request.header(header::AUTHORIZATION, secret.expose());
        }
        let response = request.send().await.map_err(|error| FetchError::Unreachable(error.without_url()))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS => Err(FetchError::Absent),
            status => Err(FetchError::Status(status.as_u16())),
        }
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, FetchError>>) -> Result<T, FetchError> {
    tokio::time::timeout(limit, work).await.map_err(|_| FetchError::Slow(limit))?
}

async fn next(response: &mut Response) -> Result<Option<bytes::Bytes>, FetchError> {
    response.chunk().await.map_err(|error| FetchError::Unreachable(error.without_url()))
}

fn check_size(bytes: u64, most: u64) -> Result<(), FetchError> {
    match bytes <= most {
        true => Ok(()),
        false => Err(FetchError::Large(most)),
    }
}

fn is_downgrade(from: &Url, to: &Url) -> bool {
    !matches!(to.scheme(), "https" | "http") || (from.scheme() == "https" && to.scheme() != "https")
}

fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let is_worse = attempt.previous().last().is_some_and(|from| is_downgrade(from, attempt.url()));
    match is_worse || attempt.previous().len() > MOST_REDIRECTS {
        true => attempt.error("too many redirects, or one away from https"),
        false => attempt.follow(),
    }
}
