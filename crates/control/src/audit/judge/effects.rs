//! Which action turns an artifact into a real effect, and who authorises it?

use ringfence_evidence::RunEnd;
use ringfence_policy::{ArtifactKind, Glob, Project};

use super::super::answer::Item;
use super::super::attempts::{KEPT, UNNAMED};
use super::Case;
use super::network::{host_sockets, reached};
use crate::promotion::Rehearsal;

/// The line of a patch that takes a file away, and the one that changes another.
const IN_THE_PATCH: [&str; 2] = ["--- a/gone.txt", "+++ b/notes.txt"];

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let project = match case.declared.capabilities.project {
        Project::None => vec![unasked(case), project(case)],
        Project::View => vec![project(case), patch(case)],
    };
    [vec![leaves(case), alone(case)], targets(case), project].concat()
}

fn leaves(case: &Case<'_>) -> Item {
    let left: Vec<&str> = case.left.report.artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
    let named = |path: &&&str| [KEPT, "changes.patch"].contains(path);
    let extra: Vec<String> = left.iter().filter(|path| !named(path)).map(|path| (*path).to_owned()).collect();
    let declared = format!("what is named for export, of {}", case.declared.capabilities.exports);
    let measured = format!("{}; {UNNAMED} stayed", if left.is_empty() { "nothing".to_owned() } else { left.join(", ") });
    let may = KEPT.parse().is_ok_and(|glob: Glob| case.declared.capabilities.exports.allows(&glob.scope()));
    match extra.is_empty() {
        true => Item::new("leaves the sandbox", declared, measured, left.contains(&KEPT) == may),
        false => Item::nothing_else("leaves the sandbox", declared, &extra),
    }
}

/// An artifact has an effect only by whoever fetches it: no tool and no way leads out of the sandbox.
fn alone(case: &Case<'_>) -> Item {
    let ways = [reached(case), host_sockets(case)].concat();
    let declared = "none: an artifact takes effect by a promotion, which persons decide about outside";
    Item::nothing("effects by the run itself", declared, &ways)
}

/// Where artifacts can take effect, and under whose approval; beside it what a run that was made would be let through with.
fn targets(case: &Case<'_>) -> Vec<Item> {
    if case.rehearsals.is_empty() {
        return vec![Item::new("promotion", "to no target: ringfence.toml names none", "nowhere", true)];
    }
    case.rehearsals.iter().map(|rehearsal| target(case, rehearsal)).collect()
}

fn target(case: &Case<'_>, rehearsal: &Rehearsal) -> Item {
    let target = &rehearsal.target;
    let may = |kind: &ArtifactKind| case.declared.capabilities.promotions.allows(kind) && target.takes(*kind, &case.left.report.profile);
    let declared: Vec<ArtifactKind> = ArtifactKind::ALL.iter().copied().filter(may).collect();
    let words = |kinds: &[ArtifactKind]| match kinds {
        [] => "nothing".to_owned(),
        kinds => kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", "),
    };
    let by = if declared.is_empty() { String::new() } else { format!(", by {}", target.consent) };
    let (holds, is_there) = match &rehearsal.holds {
        Ok(holds) if rehearsal.kinds.is_empty() => (holds.clone(), true),
        Ok(holds) => (format!("{holds}; nobody has agreed, so it would wait"), true),
        Err(error) => (format!("cannot be looked at: {error}"), false),
    };
    let is_same = declared == rehearsal.kinds && is_there;
    let measured = format!("a dry run lets {} through; {holds}", words(&rehearsal.kinds));
    Item::new(&format!("promotion to {}", target.name), format!("{}{by}", words(&declared)), measured, is_same)
}

/// A profile without projects gets none, also on request.
fn unasked(case: &Case<'_>) -> Item {
    let measured = match case.unasked_project {
        Some(RunEnd::Refused { rule, .. }) => return Item::new("a project", "none", format!("refused: {rule}"), true),
        Some(_) => "one was given",
        None => "not tried",
    };
    Item::new("a project", "none", measured, false)
}

fn project(case: &Case<'_>) -> Item {
    let changed = &case.after.project;
    let measured = if changed.is_empty() { "as it was, byte for byte".to_owned() } else { format!("changed: {}", changed.join(", ")) };
    Item::new("the project on the host", "never written", measured, changed.is_empty())
}

fn patch(case: &Case<'_>) -> Item {
    let declared = "only in changes.patch, which a person applies";
    let measured = match &case.left.patch {
        None => "no patch left",
        Some(patch) if IN_THE_PATCH.iter().all(|line| patch.contains(line)) => "all in changes.patch",
        Some(_) => "changes.patch lacks some of them",
    };
    Item::new("changes to the project", declared, measured, measured == "all in changes.patch")
}
