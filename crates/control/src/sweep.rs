//! Takes away what crashed runs left, and ends their records: each becomes a sealed run that failed because it was interrupted.
//!
//! A run whose record was damaged is put aside and told about; it stops nobody else.

use ringfence_evidence::{RunEnd, SigningKey};
use ringfence_isolation::{Traces, clear_disk};
use ringfence_store::{Artifacts, Home, Orphan, StoreError};

use crate::error::RunError;
use crate::promotion;

/// Sweeps a home, and answers with what a person should look at. Runs of living processes are left alone.
pub(crate) fn sweep(home: &Home, key: &SigningKey) -> Result<Vec<String>, RunError> {
    let mut warnings = Vec::new();
    for mut orphan in Orphan::find_all(home)? {
        if let Some(Err(error)) = orphan.traces::<Traces>().map(|traces| traces.remove(orphan.run().as_str())) {
            // Something of it is still there: the next sweep tries again.
            warnings.push(format!("what run {} left cannot be removed yet: {error}", orphan.run()));
            continue;
        }
        if let Err(error) = clear_disk(&home.work().join(orphan.run().as_str())) {
            warnings.push(format!("what run {} left on disk cannot be removed yet: {error}", orphan.run()));
            continue;
        }
        let cause = "the process that had this run ended before it was sealed".to_owned();
        let end = RunEnd::Failed { step: "interrupted".into(), cause: Some(cause) };
        match orphan.settle(home, &end, key, crate::VERSION) {
            Ok(()) => {}
            Err(error @ StoreError::Record { .. }) => {
                warnings.push(format!("{error}; it is not sealed, and its mark is now in `{}`", home.damaged().display()));
                orphan.set_aside(home)?;
            }
            // No room, say: the next sweep seals it.
            Err(error) => warnings.push(format!("run {} cannot be sealed yet: {error}", orphan.run())),
        }
    }
    if let Err(error) = promotion::sweep(home) {
        warnings.push(format!("what promotions left cannot be removed yet: {error}"));
    }
    home.sweep()?;
    Artifacts::of(home).sweep()?;
    Ok(warnings)
}
