//! Whether an artifact may go to a target at all. Pure.

use ringfence_patch::{Limits, plain_or_quoted};
use ringfence_policy::{ArtifactKind, Capabilities, Target};

use super::document::Provenance;

/// Why not, and what would allow it: the kind must be one that the run was granted, that the ceiling still allows, and that the target takes.
pub(super) fn refusal(
    what: &Provenance,
    granted: Option<&Capabilities>,
    ceiling: &Capabilities,
    target: &Target,
) -> Option<(String, String)> {
    let Provenance { kind, profile, path, .. } = what;
    let path = plain_or_quoted(path.as_bytes());
    if !granted.is_some_and(|granted| granted.promotions.allows(kind)) {
        let rule = format!("the run of profile `{profile}` was not granted that an artifact of kind `{kind}` ({path}) is promoted");
        return Some((rule, format!("add \"{kind}\" to `allow` under [promotions] in the profile, and run again")));
    }
    if !ceiling.promotions.allows(kind) {
        return Some((
            format!("the ceiling lets nothing of kind `{kind}` be promoted"),
            "see [ceiling.promotions] in ringfence.toml".into(),
        ));
    }
    let most = if *kind == ArtifactKind::Patch { Limits::default().patch_bytes as u64 } else { target.max_file_bytes };
    if what.bytes > most {
        let rule = format!("artifact {path} is {} bytes long; target `{}` takes {most} at most", what.bytes, target.name);
        return Some((rule, "see `max-file` of the target in ringfence.toml; a patch is at most 64 MiB".into()));
    }
    (!target.takes(*kind, profile)).then(|| {
        (
            format!("target `{}` does not take artifacts of kind `{kind}` from profile `{profile}`", target.name),
            "`ringfence matrix` shows which kinds may go where; see `accepts` and `profiles` of the target in ringfence.toml".into(),
        )
    })
}
