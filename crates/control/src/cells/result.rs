//! A result of a cell, from its representations by media type.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// A value in every representation that the cell gave of it. Images and PDF are base 64.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[expect(missing_docs, reason = "each field is the media type of its name")]
pub struct CellResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdf: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub javascript: Option<String>,
    /// A data frame, as its columns with their values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// A chart as data, where something in the image publishes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<Value>,
    /// Every other media type.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Value>,
    /// True for the value of the last expression; false for what was displayed on the way.
    pub is_main_result: bool,
}

impl CellResult {
    pub(super) fn of(data: BTreeMap<String, String>, is_main_result: bool) -> Self {
        let mut result = Self { is_main_result, ..Self::default() };
        for (media_type, value) in data {
            result.add(media_type, value);
        }
        result
    }

    fn add(&mut self, media_type: String, value: String) {
        match media_type.as_str() {
            "text/plain" => self.text = Some(without_quotes(value)),
            "text/html" => self.html = Some(value),
            "text/markdown" => self.markdown = Some(value),
            "image/svg+xml" => self.svg = Some(value),
            "image/png" => self.png = Some(value),
            "image/jpeg" => self.jpeg = Some(value),
            "application/pdf" => self.pdf = Some(value),
            "text/latex" => self.latex = Some(value),
            "application/json" => self.json = Some(json(value)),
            "application/javascript" => self.javascript = Some(value),
            "e2b/data" => self.data = Some(json(value)),
            "e2b/chart" => self.chart = Some(json(value)),
            _ => {
                self.extra.insert(media_type, json(value));
            }
        }
    }
}

/// The value of a JSON text; what is none stays text.
fn json(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// A string is shown as itself and not as a language writes it down.
fn without_quotes(text: String) -> String {
    let inner = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_have_their_fields() {
        let all = [
            ("text/plain", "'x'"),
            ("application/json", "{\"a\":[1]}"),
            ("image/png", "aGk="),
            ("e2b/data", "{\"c\":[1,2]}"),
            ("application/x-other", "not json"),
        ];
        let data = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let written = serde_json::to_value(CellResult::of(data, true)).unwrap();
        let expected = serde_json::json!({
            "text": "x", "json": {"a": [1]}, "png": "aGk=", "data": {"c": [1, 2]}, "extra": {"application/x-other": "not json"},
            "is_main_result": true
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn quotes_go_as_a_pair() {
        for (text, shown) in [("'a'", "a"), ("\"a\"", "a"), ("'", "'"), ("''", ""), ("'a\"", "'a\""), ("a", "a")] {
            assert_eq!(without_quotes(text.to_owned()), shown);
        }
    }

    /// Deeper than the parser goes, which must not cost the context its life.
    #[test]
    fn json_that_is_too_deep_stays_text() {
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert_eq!(json(deep.clone()), Value::String(deep));
    }
}
