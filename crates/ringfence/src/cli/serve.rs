//! `ringfence serve`: the API over HTTP, until a signal asks it to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ringfence_isolation::stop_requested_descriptor;
use ringfence_policy::LimitKey;
use ringfence_server::{ServeOptions, Server, TlsFiles};

use super::Context;
use super::out::{self, Failure, complain};

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence serve --listen 127.0.0.1:7300\n  curl -H \"Authorization: Bearer $KEY\" http://127.0.0.1:7300/v1/runs\n\nThe first start makes the tenant `default` and prints a key of each kind, once. SIGTERM or SIGINT ends it: nothing is begun\nany more, what is under way has the time of --drain, and every run is sealed. Exit status: 0 after that, 125 if it cannot serve."
)]
pub(crate) struct ServeArguments {
    /// Where to listen; any address but loopback needs a certificate
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,
    /// Certificates in PEM form, the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key in PEM form, which nobody else can read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name by which clients reach it, beside addresses and localhost; repeatable
    #[arg(long, value_name = "NAME")]
    host_name: Vec<String>,
    /// Sandboxes that are made ahead, of each of the plans that sessions used last
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=256))]
    parked: u16,
    /// How long what is under way may go on once it is asked to stop
    #[arg(long, value_name = "TIME", default_value = "5s")]
    drain: String,
}

pub(crate) fn run(context: &Context, arguments: &ServeArguments) -> Result<u8, Failure> {
    // Before there are threads, which would be ended by the signals.
    let stop = stop_requested_descriptor().map_err(|e| Failure::new(format!("watching signals: {e}"), ""))?;
    let options = options(context, arguments)?;
    let runner = context.runner(context.home()?)?;
    runner.warnings().iter().for_each(|warning| complain(&format!("ringfence: {warning}")));
    let server = Server::bind(runner, &options).map_err(|e| Failure::hinted(&e, e.hint()))?;
    for key in server.first_keys() {
        complain(&format!("ringfence: a key of tenant `default`, shown this once: {}", key.expose()));
    }
    let address = server.address().map_err(|e| Failure::hinted(&e, e.hint()))?;
    let scheme = if server.is_tls() { "https" } else { "http" };
    if !context.is_quiet {
        complain(&format!("ringfence: serving on {scheme}://{address}"));
    }
    server.run(stop).map_err(|e| Failure::hinted(&e, e.hint()))?;
    Ok(0)
}

fn options(context: &Context, arguments: &ServeArguments) -> Result<ServeOptions, Failure> {
    let drain = LimitKey::Wall.parse_value(&arguments.drain).map_err(|e| Failure::new(format!("--drain: {e}"), "such as --drain 30s"))?;
    let tls = arguments.tls_cert.clone().zip(arguments.tls_key.clone());
    Ok(ServeOptions {
        tls: tls.map(|(certificates, key)| TlsFiles { certificates, key }),
        host_names: arguments.host_name.clone(),
        drain: Duration::from_millis(drain),
        parked: usize::from(arguments.parked),
        known_secrets: context.config.known_secrets.clone(),
        homes: context.config.homes(),
        ..ServeOptions::on(arguments.listen, tell)
    })
}

/// What the server has to say to the operator. Strangers may stand behind the words.
fn tell(line: &str) {
    complain(&format!("ringfence: {}", out::harmless(line)));
}
