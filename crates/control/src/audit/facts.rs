//! What the probe said, by what it was told to try.

use ringfence_isolation::Fact;

/// The facts of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Facts(pub(crate) Vec<Fact>);

impl Facts {
    fn of(&self, tried: &str) -> Option<&Fact> {
        self.0.iter().find(|fact| fact.tried == tried.as_bytes())
    }

    /// True if it was tried and worked.
    pub(crate) fn worked(&self, tried: &str) -> bool {
        self.of(tried).is_some_and(|fact| fact.errno == 0)
    }

    /// The kernel's answer; `None` if it was not tried.
    pub(crate) fn errno(&self, tried: &str) -> Option<i32> {
        self.of(tried).map(|fact| fact.errno)
    }

    /// How it went, in words.
    pub(crate) fn words(&self, tried: &str) -> String {
        match self.errno(tried) {
            None => "not tried".to_owned(),
            Some(0) => "worked".to_owned(),
            Some(errno) => words(errno),
        }
    }

    /// What was found, as text; empty where nothing was.
    pub(crate) fn text(&self, tried: &str) -> String {
        self.of(tried).map(|fact| String::from_utf8_lossy(&fact.found).into_owned()).unwrap_or_default()
    }

    /// The number in the first line of an answer in HTTP.
    pub(crate) fn status(&self, tried: &str) -> Option<u16> {
        self.text(tried).strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
    }

    /// The lines of what was found.
    pub(crate) fn lines(&self, tried: &str) -> Vec<String> {
        self.text(tried).lines().map(str::to_owned).collect()
    }

    /// A number that was found.
    pub(crate) fn number(&self, tried: &str) -> Option<u64> {
        self.text(tried).parse().ok()
    }

    /// True if some bytes stand anywhere in what was found.
    pub(crate) fn hold(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|fact| fact.found.windows(bytes.len()).any(|window| window == bytes))
    }
}

/// The kernel's words for an error, without its number.
pub(crate) fn words(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
