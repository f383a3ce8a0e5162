//! Tests that a change takes away: files of tests that go or are emptied, and fewer tests, or more that are skipped, in any file.

use memchr::memmem;

/// What a line begins with that declares a test, in the languages that most repositories are written in.
const DECLARES: &[&str] = &[
    "#[test]",
    "#[tokio::test",
    "def test_",
    "async def test_",
    "it(",
    "test(",
    "func Test",
    "@Test",
    "TEST(",
    "TEST_F(",
    "[Fact]",
    "[Test]",
];

/// What skips a test.
#[rustfmt::skip]
const SKIPS: &[&str] = &[
    "#[ignore", "mark.skip", "mark.xfail", "unittest.skip", "it.skip(", "test.skip(", "describe.skip(", "xit(", "xdescribe(", "@Disabled", "@Ignore",
    "t.Skip(", "GTEST_SKIP",
];

/// What is lost, in words.
pub(super) fn lost_tests(path: &[u8], old: &[u8], new: &[u8]) -> Option<String> {
    let (before, after) = (Counts::of(old), Counts::of(new));
    let is_gone = !old.trim_ascii().is_empty() && new.trim_ascii().is_empty();
    let lost = [
        (is_gone && is_test(path)).then(|| "the whole file".to_owned()),
        (after.tests < before.tests).then(|| format!("{} tests before, {} after", before.tests, after.tests)),
        (after.skips > before.skips).then(|| format!("{} more skipped", after.skips - before.skips)),
    ];
    let lost: Vec<String> = lost.into_iter().flatten().collect();
    (!lost.is_empty()).then(|| lost.join(", "))
}

struct Counts {
    tests: usize,
    skips: usize,
}

impl Counts {
    fn of(text: &[u8]) -> Self {
        let starts = |line: &[u8]| DECLARES.iter().any(|start| line.trim_ascii_start().starts_with(start.as_bytes()));
        let tests = text.split(|byte| *byte == b'\n').filter(|line| starts(line)).count();
        Self { tests, skips: SKIPS.iter().map(|mark| memmem::find_iter(text, mark).count()).sum() }
    }
}

/// True if a path looks like one of tests.
fn is_test(path: &[u8]) -> bool {
    const FOLDERS: &[&str] = &["test", "tests", "__tests__", "spec", "specs", "testing", "e2e", "testdata", "fixtures"];
    let path = String::from_utf8_lossy(path).to_lowercase();
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let is_named = stem.starts_with("test_") || ["_test", "_tests", "_spec"].iter().any(|end| stem.ends_with(end)) || stem == "conftest";
    is_named || [".test.", ".spec."].iter().any(|part| name.contains(part)) || parts.iter().any(|part| FOLDERS.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_tests_are_known() {
        for path in ["tests/it/main.rs", "a/test_b.py", "a_test.go", "src/x.test.ts", "spec/x.rb", "Tests/X.cs", "conftest.py"] {
            assert!(is_test(path.as_bytes()), "{path}");
        }
        for path in ["src/main.rs", "latest.py", "contest/a.py", "attest_x.rs"] {
            assert!(!is_test(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn what_is_lost_is_said() {
        let lost = |path: &str, old: &str, new: &str| lost_tests(path.as_bytes(), old.as_bytes(), new.as_bytes()).unwrap_or_default();
        assert_eq!(lost("tests/a.txt", "x", " \n"), "the whole file");
        assert_eq!(lost("src/a.rs", "#[test]\nfn a() {}\n    #[test]\n", "#[test]\n"), "2 tests before, 1 after");
        assert_eq!(lost("src/a.rs", "#[test]\n", "#[test]\n#[ignore]\n"), "1 more skipped");
        assert_eq!(lost("src/a.rs", "x", ""), "");
    }
}
