//! Takes away what crashed runs left, and ends their records: each becomes a sealed run that failed because it was interrupted.

use ringfence_evidence::{RunEnd, SigningKey};
use ringfence_isolation::Traces;
use ringfence_store::{Artifacts, Home, Orphan};

use crate::error::RunError;

/// Sweeps a home. Runs of living processes are left alone.
pub(crate) fn sweep(home: &Home, key: &SigningKey) -> Result<(), RunError> {
    for mut orphan in Orphan::find_all(home)? {
        let removed = orphan.traces::<Traces>().map_or(Ok(()), |traces| traces.remove());
        let cause = match removed {
            Ok(()) => "the process that had this run ended before it was sealed".to_owned(),
            // The next sweep tries again.
            Err(_) => continue,
        };
        let end = RunEnd::Failed { step: "interrupted".into(), cause: Some(cause) };
        orphan.settle(home, &end, key, crate::VERSION)?;
    }
    Artifacts::of(home).sweep()?;
    Ok(())
}
