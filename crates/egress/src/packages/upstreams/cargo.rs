//! cargo's settings: what replaces its own source, or the default registry. Only sparse indexes can be asked file by file.

use ringfence_policy::Ecosystem;
use toml::{Table, Value};

use super::{Operator, Upstream, UpstreamError};
use crate::packages::secret::Secret;

const HINT: &str = "in ~/.cargo/config.toml write `[source.crates-io]` with `replace-with = \"NAME\"`, and `[source.NAME]` with \
                    `registry = \"sparse+URL\"`";

/// Replacements may be replaced; a chain longer than this has no end.
const MOST_REPLACEMENTS: usize = 8;

pub(super) fn read(operator: &Operator<'_>) -> Result<Upstream, UpstreamError> {
    let unnamed = UpstreamError::Unnamed { ecosystem: Ecosystem::Rust, client: "cargo", hint: HINT };
    let home = operator.folder("CARGO_HOME", ".cargo").ok_or_else(|| unnamed.clone())?;
    let settings = table(operator, &[format!("{home}/config.toml"), format!("{home}/config")])?;
    let (name, index) = named_index(operator, &settings)?.ok_or(unnamed)?;
    let unusable = |why: &str| UpstreamError::Unusable { client: "cargo", why: why.to_owned(), hint: HINT };
    let address = index.strip_prefix("sparse+").ok_or_else(|| unusable("it is not sparse: its address begins without `sparse+`"))?;
    let upstream = Upstream::parse("cargo", address, HINT)?;
    let token = token(operator, &home, &name)?;
    let certificates = text(&settings, &["http", "cainfo"]).map(Into::into);
    Ok(Upstream { authorization: token.map(Secret::new).or_else(|| upstream.authorization.clone()), certificates, ..upstream })
}

fn table(operator: &Operator<'_>, paths: &[String]) -> Result<Table, UpstreamError> {
    for path in paths {
        if let Some(text) = operator.text("cargo", path)? {
            let fail = |error: toml::de::Error| error.message().replace('\n', "; ");
            return text.parse().map_err(|error| UpstreamError::Settings { client: "cargo", path: path.into(), why: fail(error) });
        }
    }
    Ok(Table::new())
}

fn text<'a>(table: &'a Table, path: &[&str]) -> Option<&'a str> {
    let (last, folders) = path.split_last()?;
    let inner = folders.iter().try_fold(table, |table, key| table.get(*key).and_then(Value::as_table))?;
    inner.get(*last).and_then(Value::as_str)
}

/// The name and index of what stands in for cargo's own source, or of the default registry.
fn named_index(operator: &Operator<'_>, settings: &Table) -> Result<Option<(String, String)>, UpstreamError> {
    let mut source = "crates-io".to_owned();
    for _ in 0..MOST_REPLACEMENTS {
        match text(settings, &["source", &source, "replace-with"]) {
            Some(next) => source = next.to_owned(),
            None => break,
        }
    }
    let source = match source == "crates-io" {
        false => source,
        true => match operator.variable("CARGO_REGISTRY_DEFAULT").or_else(|| text(settings, &["registry", "default"])) {
            Some(name) => name.to_owned(),
            None => return Ok(None),
        },
    };
    let variable = format!("CARGO_REGISTRIES_{}_INDEX", upper(&source));
    let index = operator.variable(&variable).or_else(|| text(settings, &["source", &source, "registry"]));
    let index = index.or_else(|| text(settings, &["registries", &source, "index"]));
    let unusable = || UpstreamError::Unusable { client: "cargo", why: format!("source `{source}` has no registry"), hint: HINT };
    Ok(Some((source.clone(), index.ok_or_else(unusable)?.to_owned())))
}

fn upper(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

fn token(operator: &Operator<'_>, home: &str, name: &str) -> Result<Option<String>, UpstreamError> {
    if let Some(token) = operator.variable(&format!("CARGO_REGISTRIES_{}_TOKEN", upper(name))) {
        return Ok(Some(token.to_owned()));
    }
    let credentials = table(operator, &[format!("{home}/credentials.toml"), format!("{home}/credentials")])?;
    Ok(text(&credentials, &["registries", name, "token"]).map(str::to_owned))
}
