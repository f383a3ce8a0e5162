//! An upstream behind TLS whose authority only the operator's client trusts.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ringfence_egress::packages::{Operator, Upstreams};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::rig::{OPEN, Rig};
use super::shelf::Shelf;
use super::upstream::Reply;

/// Puts TLS before a plain address; answers with the port, and writes the authority's certificate to a file.
fn secured(runtime: &tokio::runtime::Runtime, plain: String, authority_file: &Path) -> u16 {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(authority_file, authority.self_signed(&key).unwrap().pem()).unwrap();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &Issuer::new(authority, key)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(leaf_key.serialize_der()).unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                let mut inner = TcpStream::connect(plain).await.unwrap();
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    drop(tokio::io::copy_bidirectional(&mut stream, &mut inner).await);
                }
            });
        }
    });
    port
}

#[test]
fn an_authority_that_pip_trusts_is_trusted_and_no_other_and_https_is_not_left() {
    let shelf = Shelf::new();
    let bytes = shelf.wheel("sealed", "1.0", &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    let port = secured(&runtime, shelf.upstream.address.clone(), &authority);
    let rig = |settings: &str| {
        std::fs::create_dir_all(folder.path().join("etc")).unwrap();
        std::fs::write(folder.path().join("etc/pip.conf"), settings).unwrap();
        let environment = Default::default();
        let upstreams = Upstreams::read(&Operator { environment: &environment, root: folder.path() });
        Rig::with(&shelf, OPEN, Default::default(), |setup| setup.upstreams = upstreams)
    };
    let index = format!("[global]\nindex-url = https://localhost:{port}/simple/\n");
    let trusting = format!("{index}cert = {}\n", authority.display());
    let path = "/python/files/sealed/sealed-1.0-py3-none-any.whl";
    assert_eq!(rig(&trusting).get(path).body, bytes);
    assert_eq!(rig(&index).get(path).status, 502);
    shelf.upstream.say("/files/sealed-1.0-py3-none-any.whl", Reply::Redirect(shelf.upstream.url("/elsewhere")));
    assert_eq!(rig(&trusting).get(path).status, 502);
    assert!(!shelf.upstream.was_asked_about("elsewhere"));
}
