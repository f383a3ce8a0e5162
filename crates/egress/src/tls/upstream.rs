//! TLS towards a host outside, whose certificate is checked by what this machine trusts.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::HostName;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// How hosts outside are spoken to.
#[derive(Clone)]
pub(crate) struct Upstream(TlsConnector);

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstream")
    }
}

impl Upstream {
    pub(crate) fn new() -> io::Result<Self> {
        // The process may have one already.
        rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
        Ok(Self::with(ClientConfig::with_platform_verifier().map_err(io::Error::other)?))
    }

    pub(crate) fn trusting(authorities: RootCertStore) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(io::Error::other)?;
        Ok(Self::with(config.with_root_certificates(authorities).with_no_client_auth()))
    }

    fn with(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }

    pub(crate) async fn connect(&self, host: &HostName, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.as_str().to_owned()).map_err(io::Error::other)?;
        timeout(HANDSHAKE, self.0.connect(name, stream)).await.map_err(io::Error::other)?
    }
}
