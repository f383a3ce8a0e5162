//! cargo's sparse index: a file of lines for each crate, one line a version, and the crates.

use std::sync::Arc;

use reqwest::Url;
use ringfence_policy::{Ecosystem, PackageName, PackageVersion};
use serde::Deserialize;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::answer::{self, Answer, Denied};
use super::archive::Format;
use super::digest::{Algorithm, FileHash};
use super::file::Wanted;
use super::index::Index;
use super::rules::{Candidate, Refusal};

/// What matters of a line; the line itself is handed on as it is.
#[derive(Deserialize)]
struct Told {
    name: String,
    vers: String,
    cksum: String,
    #[serde(default)]
    pubtime: Option<String>,
}

/// One version, and what the rules say of it.
struct Judged {
    line: String,
    told: Told,
    version: PackageVersion,
    hashes: Vec<FileHash>,
    verdict: Result<(), Refusal>,
}

/// How an index says where its files are.
#[derive(Deserialize)]
struct Config {
    dl: String,
}

impl Index {
    pub(super) async fn rust(self: &Arc<Self>, path: &[&str]) -> Answer {
        let answer = match path {
            ["config.json"] => Ok(self.rust_config()),
            ["crates", name, version, "download"] => self.rust_file(name, version).await,
            ["1" | "2", name] | ["3", _, name] | [_, _, name] => self.rust_page(name, &path.join("/")).await,
            _ => Err(Denied::Absent("such path".to_owned())),
        };
        answer.unwrap_or_else(|denied| denied.answer())
    }

    fn rust_config(&self) -> Answer {
        answer::page("application/json", json!({ "dl": format!("{}/rust/crates", self.base_url) }).to_string())
    }

    async fn rust_page(self: &Arc<Self>, name: &str, path: &str) -> Result<Answer, Denied> {
        let absent = || Denied::Absent("such path".to_owned());
        let canonical = self.allowed_name(Ecosystem::Rust, name).await?;
        if path != index_path(name) {
            return Err(absent());
        }
        let judged = self.rust_judged(&canonical, name).await?;
        let lines: Vec<&str> = judged.iter().filter(|judged| judged.verdict.is_ok()).map(|judged| judged.line.as_str()).collect();
        match judged.iter().rev().find_map(|judged| judged.verdict.as_ref().err()).filter(|_| lines.is_empty()) {
            Some(refusal) => Err(refusal.clone().into()),
            None => Ok(answer::page("text/plain; charset=utf-8", lines.join("\n") + "\n")),
        }
    }

    async fn rust_judged(self: &Arc<Self>, canonical: &PackageName, name: &str) -> Result<Vec<Judged>, Denied> {
        let url = self.rust_url(&index_path(name))?;
        let said = self.page(Ecosystem::Rust, &url, "text/plain, */*;q=0.5").await?;
        let rules = self.rules(Ecosystem::Rust);
        let judge = |line: &str| {
            let told: Told = serde_json::from_str(line).ok()?;
            // A crate's file holds that crate alone, whatever its lines say.
            PackageName::parse(Ecosystem::Rust, &told.name).ok().filter(|name| name == canonical)?;
            let version = PackageVersion::parse(Ecosystem::Rust, &told.vers).ok()?;
            let hashes: Vec<FileHash> = FileHash::from_digits(Algorithm::Sha256, &told.cksum).into_iter().collect();
            let published_at = told.pubtime.as_deref().and_then(|time| OffsetDateTime::parse(time, &Rfc3339).ok());
            let candidate =
                Candidate { name: canonical, version: &version, published_at, hashes: &hashes, is_source: false, has_scripts: false };
            let verdict = rules.file(&candidate);
            Some(Judged { line: line.to_owned(), told, verdict, version, hashes })
        };
        let judged: Vec<Judged> = String::from_utf8_lossy(&said.body).lines().filter_map(judge).collect();
        let left_out = judged.iter().filter_map(|judged| Some((&judged.version, judged.verdict.as_ref().err()?)));
        let is_nothing_left = judged.iter().all(|judged| judged.verdict.is_err());
        self.tell_left_out_of(Ecosystem::Rust, canonical, left_out, is_nothing_left).await;
        Ok(judged)
    }

    async fn rust_file(self: &Arc<Self>, name: &str, version: &str) -> Result<Answer, Denied> {
        let canonical = self.allowed_name(Ecosystem::Rust, name).await?;
        let file = format!("{name}-{version}.crate");
        let absent = || Denied::Absent(file.clone());
        let judged = self.rust_judged(&canonical, name).await?;
        let wanted = judged.into_iter().find(|judged| judged.told.vers == version).ok_or_else(absent)?;
        if let Err(refusal) = wanted.verdict {
            return Err(self.refuse_version(Ecosystem::Rust, &canonical, &wanted.version, refusal).await);
        }
        let url = self.rust_download(&wanted.told).await?.ok_or_else(absent)?;
        self.file(Wanted {
            ecosystem: Ecosystem::Rust,
            name: canonical,
            version: wanted.version,
            file,
            what: "crate",
            format: Format::Tarball,
            url,
            hashes: wanted.hashes,
        })
        .await
    }

    fn rust_url(&self, path: &str) -> Result<Url, Denied> {
        self.client(Ecosystem::Rust)?.upstream.url.join(path).map_err(|_| Denied::Absent("such path".to_owned()))
    }

    /// Where upstream keeps a crate.
    async fn rust_download(self: &Arc<Self>, told: &Told) -> Result<Option<Url>, Denied> {
        let said = self.page(Ecosystem::Rust, &self.rust_url("config.json")?, "application/json").await?;
        let unreadable = || Denied::Upstream { ecosystem: Ecosystem::Rust, why: "its config.json names no place of files".to_owned() };
        let config: Config = serde_json::from_slice(&said.body).map_err(|_| unreadable())?;
        Ok(download_url(&config.dl, told).parse().ok())
    }
}

/// Fills in the markers of a template; one without any is followed by the usual path.
fn download_url(template: &str, told: &Told) -> String {
    let prefix = |name: &str| index_path(name).rsplit_once('/').map(|(prefix, _)| prefix.to_owned()).unwrap_or_default();
    let (own, lower) = (cased_prefix(&told.name), prefix(&told.name));
    let markers = [
        ("{crate}", told.name.as_str()),
        ("{version}", &told.vers),
        ("{prefix}", &own),
        ("{lowerprefix}", &lower),
        ("{sha256-checksum}", &told.cksum),
    ];
    match markers.iter().any(|(marker, _)| template.contains(marker)) {
        true => markers.iter().fold(template.to_owned(), |text, (marker, value)| text.replace(marker, value)),
        false => format!("{}/{}/{}/download", template.trim_end_matches('/'), told.name, told.vers),
    }
}

/// Where a crate's lines are: by the first letters of its name in lower case.
fn index_path(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    format!("{}/{lower}", cased_prefix(&lower))
}

fn cased_prefix(name: &str) -> String {
    match name.len() {
        length @ (1 | 2) => length.to_string(),
        3 => format!("3/{}", &name[..1]),
        _ => format!("{}/{}", &name[..2], &name[2..4]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_found_by_the_first_letters_of_its_name() {
        let paths = ["a", "ab", "Abc", "serde_json"].map(index_path);
        assert_eq!(paths, ["1/a", "2/ab", "3/a/abc", "se/rd/serde_json"]);
        let told = Told { name: "Abcd".into(), vers: "1.0.0".into(), cksum: "00".into(), pubtime: None };
        assert_eq!(download_url("https://x.example/api", &told), "https://x.example/api/Abcd/1.0.0/download");
        let marked = "https://x.example/{prefix}/{lowerprefix}/{crate}-{version}-{sha256-checksum}";
        assert_eq!(download_url(marked, &told), "https://x.example/Ab/cd/ab/cd/Abcd-1.0.0-00");
    }
}
