//! Why a server does not start, or stopped otherwise than it was asked to.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use ringfence_store::StoreError;

/// Nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Whoever listens could read the keys on their way.
    #[error("`{0}` can be reached from elsewhere, where keys and code would pass unencrypted")]
    PublicWithoutTls(SocketAddr),
    /// The address cannot be had.
    #[error("listen on `{address}`: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another server has this home.
    #[error("another server has this home: `{path}` is locked")]
    Taken {
        /// The lock.
        path: PathBuf,
    },
    /// A certificate or its key is of no use.
    #[error("`{path}` {cause}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A file could not be used.
    #[error("{act} `{path}`: {source}")]
    File {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The system gives no thread, descriptor or timer.
    #[error("{act}: {source}")]
    System {
        /// What was tried.
        act: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Keys and tenants cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ServeError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::PublicWithoutTls(_) => {
                "give a certificate: --tls-cert FILE --tls-key FILE; or listen on 127.0.0.1, behind a proxy that speaks TLS".into()
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "end what listens there, or name another port: --listen ADDRESS:PORT".into()
            }
            Self::Listen { .. } => "name an address of this host: --listen ADDRESS:PORT".into(),
            Self::Taken { .. } => "ask that one, end it, or use another RINGFENCE_HOME".into(),
            Self::Tls { .. } => {
                "name a PEM file with the chain of certificates, the server's own first, and one with its private key, of mode 600".into()
            }
            Self::File { .. } => "look at the file named above".into(),
            Self::System { .. } => "this host is short of something; see the limits of the service".into(),
            Self::Store(error) => error.hint(),
        }
    }
}
