//! TLS towards clients: 1.2 and 1.3, with a certificate and a key from files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::ServeError;
use crate::options::TlsFiles;

/// What shakes hands with clients.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &Path, cause: String| ServeError::Tls { path: path.to_owned(), cause };
    check_private(&files.key)?;
    let chain = CertificateDer::pem_file_iter(&files.certificates).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|e| wrong(&files.certificates, format!("does not hold certificates: {e}")))?;
    if chain.is_empty() {
        return Err(wrong(&files.certificates, "holds no certificate".into()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| wrong(&files.key, format!("does not hold a private key: {e}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|e| wrong(&files.certificates, format!("cannot be used: {e}")))?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(|e| wrong(&files.certificates, format!("cannot be used: {e}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A key that others can read is no key.
fn check_private(path: &Path) -> Result<(), ServeError> {
    let meta = fs::metadata(path).map_err(|source| ServeError::File { act: "read", path: path.to_owned(), source })?;
    match meta.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(ServeError::Tls { path: path.to_owned(), cause: format!("can be read by others (mode {:o})", meta.mode() & 0o777) }),
    }
}
