//! What leaves a run that has ended: the artifacts that were named, and the patch of what it changed.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::SystemTime;

use ringfence_isolation::{
    ArtifactSink, Export, ExportLimits, ExportRefusal, Exported, PatchRequest, Remains, Stored, collect, write_patch,
};
use ringfence_policy::Glob;
use ringfence_store::Artifacts;

use crate::stop::Stop;
use crate::views::Views;

/// The name under which the changes to a project can be exported.
const PATCH: &str = "changes.patch";

/// Refusals of an export that are named one by one.
const NAMED_REFUSALS: usize = 1000;

/// What can leave a run that has ended.
pub(crate) struct Leaving<'a> {
    pub(crate) views: &'a Views,
    pub(crate) remains: &'a Remains,
    /// When the run began to look at the host's files.
    pub(crate) since: SystemTime,
    /// Where private copies are.
    pub(crate) work: &'a Path,
}

impl Leaving<'_> {
    /// Collects what the globs name, within the limits; the patch is one artifact of them.
    pub(crate) fn collect(&self, globs: &[Glob], limits: ExportLimits, sink: &mut Sink<'_>) -> Export {
        let (patches, globs): (Vec<Glob>, Vec<Glob>) =
            globs.iter().cloned().partition(|glob| self.views.project.is_some() && glob.as_str() == PATCH);
        let mut export = collect(self.remains.workspace.as_fd(), &globs, limits, sink);
        if !patches.is_empty() {
            reserve_patch_name(&mut export);
            let taken: u64 = export.artifacts.iter().map(|artifact| artifact.stored.bytes).sum();
            let left = ExportLimits { artifacts: limits.artifacts - export.artifacts.len() as u64, bytes: limits.bytes - taken };
            patch(self, left, sink, &mut export);
        }
        cap(&mut export.refusals);
        export
    }
}

/// A program can make as many things that are refused as it likes; a record names the first of them.
fn cap(refusals: &mut Vec<ExportRefusal>) {
    if refusals.len() > NAMED_REFUSALS {
        let more = refusals.len() - NAMED_REFUSALS;
        refusals.truncate(NAMED_REFUSALS);
        refusals.push(ExportRefusal { path: "**".into(), reason: format!("{more} more were refused and are not named") });
    }
}

/// The program cannot pass off a file of its own as the patch.
fn reserve_patch_name(export: &mut Export) {
    let before = export.artifacts.len();
    export.artifacts.retain(|artifact| artifact.path.as_bytes() != PATCH.as_bytes());
    if export.artifacts.len() < before {
        let reason = "the program wrote a file of this name; the artifact is the patch of its changes".into();
        export.refusals.push(ExportRefusal { path: PATCH.into(), reason });
    }
}

/// Makes `changes.patch` from what the run changed in its view of the project.
fn patch(leaving: &Leaving<'_>, limits: ExportLimits, sink: &mut Sink<'_>, export: &mut Export) {
    let (Some(project), remains) = (&leaving.views.project, leaving.remains) else { return };
    let request = PatchRequest {
        base: &project.path,
        workspace: remains.workspace.as_fd(),
        changes: remains.changes.as_ref().map(AsFd::as_fd),
        hidden: &project.veil.hidden,
        replaced: &project.veil.replaced,
        most_bytes: limits.bytes,
        // A private copy does not change under the run.
        since: (!project.path.starts_with(leaving.work)).then_some(leaving.since),
    };
    let written = write_patch(&request, &mut |_| sink.stop.go_on()).and_then(|(bytes, summary)| match bytes.len() as u64 <= limits.bytes {
        true if limits.artifacts > 0 => sink.store(&mut bytes.as_slice()).map(|stored| (stored, summary)),
        true => Err(io::Error::other("is one artifact more than the limit")),
        false => Err(io::Error::other(format!("is {} bytes long, more than the {} that are left of the limit", bytes.len(), limits.bytes))),
    });
    match written {
        Ok((stored, summary)) => {
            export.artifacts.push(Exported { path: PATCH.into(), is_executable: false, stored });
            export.refusals.extend(
                summary.refused.into_iter().map(|(path, reason)| ExportRefusal { path, reason: format!("left out of {PATCH}: {reason}") }),
            );
        }
        Err(error) => export.refusals.push(ExportRefusal { path: PATCH.into(), reason: error.to_string() }),
    }
}

/// Artifacts go into the store.
pub(crate) struct Sink<'a> {
    pub(crate) artifacts: &'a Artifacts,
    pub(crate) stop: &'a Stop<'a>,
}

impl ArtifactSink for Sink<'_> {
    fn store(&mut self, content: &mut dyn Read) -> io::Result<Stored> {
        self.stop.go_on()?;
        let (digest, bytes) = self.artifacts.put(content)?;
        Ok(Stored { bytes, sha256: digest.hex() })
    }
}
