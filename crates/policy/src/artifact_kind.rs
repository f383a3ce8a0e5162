//! What kind of thing an artifact is: said by its name alone, since its content is a stranger's. A promotion asks for it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choices::choice;
use crate::lattice::Element;

choice!(
    /// The kind of an artifact.
    ArtifactKind {
        /// A change of files, in git's format.
        Patch = "patch",
        /// Something for people to read.
        Report = "report",
        /// A picture.
        Image = "image",
        /// A notebook of cells.
        Notebook = "notebook",
        /// Statements for a database, such as a migration.
        Sql = "sql",
        /// A description of what is to be deployed or configured.
        Manifest = "manifest",
        /// Rows of data.
        DataSet = "data-set",
        /// Anything else.
        Other = "other",
    }
);

/// Which endings of a name mean which kind.
const ENDINGS: &[(ArtifactKind, &[&str])] = &[
    (ArtifactKind::Patch, &["patch", "diff"]),
    (ArtifactKind::Report, &["md", "txt", "html", "htm", "pdf", "rst", "adoc", "docx", "tex"]),
    (ArtifactKind::Image, &["png", "svg", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff"]),
    (ArtifactKind::Notebook, &["ipynb"]),
    (ArtifactKind::Sql, &["sql"]),
    (ArtifactKind::Manifest, &["yaml", "yml", "toml", "json", "tf", "hcl", "ini", "conf"]),
    (ArtifactKind::DataSet, &["csv", "tsv", "parquet", "jsonl", "ndjson", "arrow", "feather", "xlsx", "avro"]),
];

impl ArtifactKind {
    /// The kind of an artifact of this name.
    pub fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        ENDINGS.iter().find(|(_, endings)| endings.contains(&ending)).map_or(Self::Other, |(kind, _)| *kind)
    }
}

/// Kinds are apart: none holds another.
impl Element for ArtifactKind {
    fn meet(&self, other: &Self) -> Option<Self> {
        (self == other).then_some(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_kind() {
        let cases = [
            ("changes.patch", ArtifactKind::Patch),
            ("out/Report.MD", ArtifactKind::Report),
            ("plot.svg", ArtifactKind::Image),
            ("a.ipynb", ArtifactKind::Notebook),
            ("001_users.sql", ArtifactKind::Sql),
            ("deploy.yaml", ArtifactKind::Manifest),
            ("rows.csv", ArtifactKind::DataSet),
            ("rows.csv.gz", ArtifactKind::Other),
            ("md", ArtifactKind::Other),
            ("x.patch/y", ArtifactKind::Other),
        ];
        for (name, kind) in cases {
            assert_eq!(ArtifactKind::of(name), kind, "{name}");
        }
    }
}
