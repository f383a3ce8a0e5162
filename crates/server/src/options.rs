//! How a server is to be: where it listens, by which names it goes, and what it tells the operator.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ringfence_control::Secret;

use crate::error::ServeError;
use crate::limits::Limits;

/// A certificate and its key, in PEM form.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The chain of certificates, the server's own first.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// How a server is to be.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// With which certificate; plain where there is none.
    pub tls: Option<TlsFiles>,
    /// Names by which clients reach it, beside addresses and `localhost`, in lower case.
    pub host_names: Vec<String>,
    /// How long runs may go on once the server is asked to stop.
    pub drain: Duration,
    /// Sandboxes made ahead, of each of the plans that sessions used last.
    pub parked: usize,
    /// What it takes of strangers.
    pub limits: Limits,
    /// Values of this process's environment that must not stand in a record.
    pub known_secrets: Vec<Secret>,
    /// People's homes, of which no run sees the whole.
    pub homes: Vec<PathBuf>,
    /// Takes lines for the operator.
    pub log: fn(&str),
}

impl ServeOptions {
    /// The usual: on loopback, with the usual limits.
    pub fn on(listen: SocketAddr, log: fn(&str)) -> Self {
        Self {
            listen,
            tls: None,
            host_names: Vec::new(),
            drain: Duration::from_secs(5),
            parked: 2,
            limits: Limits::default(),
            known_secrets: Vec::new(),
            homes: Vec::new(),
            log,
        }
    }

    /// Refuses to let keys pass where others can read them.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        match self.tls.is_none() && !is_loopback(self.listen.ip()) {
            true => Err(ServeError::PublicWithoutTls(self.listen)),
            false => Ok(()),
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_goes_without_tls() {
        let check = |listen: &str, tls: Option<TlsFiles>| ServeOptions { tls, ..ServeOptions::on(listen.parse().unwrap(), |_| ()) }.check();
        for listen in ["127.0.0.1:0", "127.8.9.1:1", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            assert!(check(listen, None).is_ok(), "{listen}");
        }
        for listen in ["0.0.0.0:0", "[::]:0", "10.0.0.1:80", "[::ffff:10.0.0.1]:0", "169.254.169.254:1"] {
            let refused = check(listen, None).unwrap_err();
            assert!(refused.hint().contains("--tls-cert"), "{listen}: {refused}");
            let files = TlsFiles { certificates: "c".into(), key: "k".into() };
            assert!(check(listen, Some(files)).is_ok(), "{listen}");
        }
    }
}
