//! TLS towards a host outside, whose certificate is checked by what this machine trusts.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::HostName;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
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
        let mut config = ClientConfig::with_platform_verifier().map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn connect(&self, host: &HostName, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.as_str().to_owned()).map_err(io::Error::other)?;
        timeout(HANDSHAKE, self.0.connect(name, stream)).await.map_err(io::Error::other)?
    }
}
