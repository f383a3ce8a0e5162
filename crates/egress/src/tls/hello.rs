//! The first bytes of a connection: TLS with a name, something plain, or neither.

use rustls::server::Acceptor;

/// The most bytes of a first message. It is read anew whenever some come: what comes byte by byte must not cost much more than its length.
const MOST: usize = 16 << 10;
/// The first byte of a TLS handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// A fatal alert, "unrecognized name" (RFC 6066), in a record of TLS 1.2, which every version reads.
pub(crate) const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];

/// What the first bytes say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hello {
    /// TLS, with the name that it is for.
    Named(Option<String>),
    /// Letters, as HTTP begins with.
    Plain,
    /// Nothing came.
    Nothing,
    /// Something else.
    Broken,
}

/// What some first bytes say; `None` if more are needed. The parser is that of the TLS library.
pub(crate) fn hello(bytes: &[u8]) -> Option<Hello> {
    match bytes.first()? {
        &HANDSHAKE if bytes.len() > MOST => Some(Hello::Broken),
        &HANDSHAKE => {
            let mut acceptor = Acceptor::default();
            let mut rest = bytes;
            while !rest.is_empty() {
                if acceptor.read_tls(&mut rest).is_err() {
                    return Some(Hello::Broken);
                }
                match acceptor.accept() {
                    Ok(Some(accepted)) => return Some(Hello::Named(accepted.client_hello().server_name().map(str::to_owned))),
                    Ok(None) => {}
                    Err(_) => return Some(Hello::Broken),
                }
            }
            None
        }
        byte if byte.is_ascii_alphabetic() => Some(Hello::Plain),
        _ => Some(Hello::Broken),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn client_hello(name: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name.to_owned().try_into().unwrap()).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_name_is_read_once_the_message_is_whole() {
        let bytes = client_hello("api.example.com");
        assert_eq!(hello(&bytes), Some(Hello::Named(Some("api.example.com".into()))));
        assert_eq!(hello(&bytes[..bytes.len() - 1]), None);
        assert_eq!(hello(&bytes[..1]), None);
        assert_eq!(hello(&client_hello("192.0.2.1")), Some(Hello::Named(None)));
    }

    #[test]
    fn what_is_no_tls_is_told_apart() {
        assert_eq!(hello(b""), None);
        assert_eq!(hello(b"GET / HTTP/1.1"), Some(Hello::Plain));
        assert_eq!(hello(&[0, 1, 2]), Some(Hello::Broken));
        assert_eq!(hello(&[22, 3, 1, 255, 255, 0, 0, 0, 0]), Some(Hello::Broken));
        assert_eq!(hello(&vec![22; MOST + 1]), Some(Hello::Broken));
    }
}
