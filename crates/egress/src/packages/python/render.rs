//! A page for the clients inside, in the form that they ask for.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::Offer;
use super::page::PythonFile;
use crate::packages::answer::{self, Answer, Denied};
use crate::packages::rules::{Refusal, Rule};

const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// A version that no package has, and that says who speaks.
const EXPLANATION: &str = "-0+ringfence.";

/// One line of a page.
struct Line {
    file_name: String,
    url: String,
    hashes: Vec<(String, String)>,
    requires_python: Option<String>,
    yanked: Option<String>,
    metadata: Option<(String, String)>,
    published_at: Option<String>,
}

/// The page of a package.
pub(super) fn offer(offer: &Offer, accept: &str, is_explained: bool) -> Answer {
    let mut lines: Vec<Line> = offer.files.iter().filter_map(|(file, verdict)| line(offer, file, verdict.as_ref().err())).collect();
    if let Some(refusal) = offer.nothing().filter(|_| is_explained) {
        lines.push(explanation(offer.name.as_str(), refusal.rule.words()));
    }
    page(offer.name.as_str(), &lines, accept)
}

/// The page of a package that is not had at all.
pub(super) fn explained(name: &str, denied: &Denied, accept: &str) -> Answer {
    let words = match denied {
        Denied::Refused(refusal) => refusal.rule.words(),
        Denied::Limit(_) => "limits",
        Denied::Absent(_) | Denied::Method | Denied::Upstream { .. } | Denied::Unrecorded | Denied::Storage => "no answer from the index",
    };
    page(name, &[explanation(name, words)], accept)
}

/// True if a file is one that stands for a reason.
pub(super) fn is_explanation(file_name: &str) -> bool {
    file_name.contains(EXPLANATION)
}

fn explanation(name: &str, words: &str) -> Line {
    let file_name = format!("{}{EXPLANATION}{}-py3-none-any.whl", name.replace(['-', '.'], "_"), words.replace(' ', "."));
    Line {
        url: url(name, &file_name),
        file_name,
        hashes: Vec::new(),
        requires_python: None,
        yanked: None,
        metadata: None,
        published_at: None,
    }
}

fn url(name: &str, file_name: &str) -> String {
    let encoded =
        |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string().replace("%2D", "-").replace("%2E", ".").replace("%5F", "_");
    format!("/python/files/{}/{}", encoded(name), encoded(file_name))
}

/// A file that a rule refuses is yanked, with the reason: pip tells it to who asks for just this version. One that the lock file does not
/// have, or that would be built, does not exist.
fn line(offer: &Offer, file: &PythonFile, refusal: Option<&Refusal>) -> Option<Line> {
    let is_hidden = |rule: Rule| matches!(rule, Rule::Lock | Rule::LockHash | Rule::SourceBuilds);
    if refusal.is_some_and(|refusal| is_hidden(refusal.rule)) {
        return None;
    }
    let pair = |hash: &crate::packages::digest::FileHash| (hash.algorithm().word().to_owned(), hash.digits().to_owned());
    Some(Line {
        file_name: file.file_name.clone(),
        url: url(offer.name.as_str(), &file.file_name),
        hashes: file.hashes.iter().map(pair).collect(),
        requires_python: file.requires_python.clone(),
        yanked: refusal.map(|refusal| format!("ringfence: {} (rule: {})", refusal.why, refusal.rule)).or_else(|| file.yanked.clone()),
        metadata: file.metadata.as_ref().filter(|_| refusal.is_none()).map(pair),
        published_at: file.published_at.and_then(|at| at.format(&Rfc3339).ok()),
    })
}

fn page(name: &str, lines: &[Line], accept: &str) -> Answer {
    match accept.contains(JSON) {
        true => answer::page(JSON, json_page(name, lines)),
        false => answer::page("text/html; charset=utf-8", html_page(name, lines)),
    }
}

fn json_page(name: &str, lines: &[Line]) -> String {
    let file = |line: &Line| {
        let mut file = json!({
            "filename": line.file_name,
            "url": line.url,
            "hashes": line.hashes.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "yanked": line.yanked.as_deref().map_or(json!(false), |reason| if reason.is_empty() { json!(true) } else { json!(reason) }),
        });
        let optional = [
            ("requires-python", line.requires_python.as_ref().map(|text| json!(text))),
            ("core-metadata", line.metadata.as_ref().map(|(algorithm, digits)| json!({ algorithm: digits }))),
            ("upload-time", line.published_at.as_ref().map(|text| json!(text))),
        ];
        optional.into_iter().filter_map(|(key, value)| Some((key, value?))).for_each(|(key, value)| file[key] = value);
        file
    };
    json!({ "meta": { "api-version": "1.0" }, "name": name, "files": lines.iter().map(file).collect::<Vec<Value>>() }).to_string()
}

fn html_page(name: &str, lines: &[Line]) -> String {
    let mut text = format!("<!DOCTYPE html>\n<html><head><title>{0}</title></head><body>\n", escaped(name));
    for line in lines {
        let fragment = line.hashes.first().map(|(algorithm, digits)| format!("#{algorithm}={digits}")).unwrap_or_default();
        let attributes = [
            ("data-requires-python", line.requires_python.clone()),
            ("data-yanked", line.yanked.clone()),
            ("data-core-metadata", line.metadata.as_ref().map(|(algorithm, digits)| format!("{algorithm}={digits}"))),
        ];
        let attributes = attributes.into_iter().filter_map(|(key, value)| Some(format!(" {key}=\"{}\"", escaped(&value?))));
        let attributes: String = attributes.collect();
        text += &format!("<a href=\"{}{fragment}\"{attributes}>{}</a><br>\n", escaped(&line.url), escaped(&line.file_name));
    }
    text + "</body></html>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
