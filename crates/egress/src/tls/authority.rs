//! A certificate authority that lives as long as one run. Its key is made here and never leaves this process.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use ringfence_policy::HostName;
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tls::Upstream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// Names whose certificates are kept: below a wildcard there is no end of them.
const MOST_NAMES: usize = 256;

/// The authority of one run, and how hosts outside are spoken to.
pub struct Interception {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    configs: Mutex<HashMap<HostName, Arc<ServerConfig>>>,
    pub(crate) upstream: Upstream,
}

impl fmt::Debug for Interception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interception").finish_non_exhaustive()
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl Interception {
    /// Makes an authority.
    pub fn new() -> io::Result<Self> {
        let key = KeyPair::generate().map_err(other)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named("ringfence, for one run");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(other)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, configs: Mutex::default(), upstream: Upstream::new()? })
    }

    /// The same, trusting some authorities outside in place of those that this machine trusts.
    pub fn trusting(self, authorities: RootCertStore) -> io::Result<Self> {
        Ok(Self { upstream: Upstream::trusting(authorities)?, ..self })
    }

    /// Its certificate in PEM, for programs inside to trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Takes a connection as the host of that name.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, host: &HostName, stream: S) -> io::Result<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(self.config(host)?);
        timeout(HANDSHAKE, acceptor.accept(stream)).await.map_err(other)?
    }

    fn config(&self, host: &HostName) -> io::Result<Arc<ServerConfig>> {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = configs.get(host) {
            return Ok(config.clone());
        }
        let config = Arc::new(self.make_config(host)?);
        if configs.len() >= MOST_NAMES {
            configs.clear(); // whoever asks for so many names pays for new ones
        }
        configs.insert(host.clone(), config.clone());
        Ok(config)
    }

    fn make_config(&self, host: &HostName) -> io::Result<ServerConfig> {
        let key = KeyPair::generate().map_err(other)?;
        let mut params = CertificateParams::new(vec![host.to_string()]).map_err(other)?;
        params.distinguished_name = named(host.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &self.issuer).map_err(other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(other)?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .map_err(other)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn named(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    // RFC 5280 bounds a common name at 64 characters; the name that counts is the alternative one.
    name.push(DnType::CommonName, common.chars().take(64).collect::<String>());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_kept_for_so_many_names_only() {
        let interception = Interception::new().unwrap();
        for number in 0..MOST_NAMES * 2 + 1 {
            interception.config(&format!("n{number}.example.com").parse().unwrap()).unwrap();
        }
        assert_eq!(interception.configs.lock().unwrap().len(), 1);
    }
}
