//! What survives the end?

use super::super::answer::Item;
use super::super::attempts::{LEFT_IN, SEGMENTS};
use super::super::{aftermath, facts};
use super::Case;

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let after = case.after;
    let nothing = |capability: &str, found: &[String]| Item::nothing(capability, "nothing", found);
    vec![
        Item::nothing(&format!("processes ({})", process(case)), "nothing", &after.processes),
        nothing("cgroups", &after.cgroups),
        nothing("mounts", &after.mounts),
        nothing("folders of the run", &after.folders),
        nothing("files in /tmp and /dev/shm", &[after.files.clone(), found_by_next(case)].concat()),
        nothing("System V segments", &[after.segments.clone(), segments_by_next(case)].concat()),
    ]
}

/// What came of leaving a process behind.
fn process(case: &Case<'_>) -> String {
    let tried = format!("leave-process={}", case.names.mark);
    match case.left.facts.errno(&tried) {
        Some(0) => "one was left behind".to_owned(),
        Some(errno) => format!("none could be started: {}", facts::words(errno)),
        None => "not tried".to_owned(),
    }
}

/// Files of the run before that the next one sees.
fn found_by_next(case: &Case<'_>) -> Vec<String> {
    let paths = LEFT_IN.iter().map(|folder| format!("{folder}/{}", case.names.mark));
    paths.filter(|path| case.looked.worked(&format!("read={path}"))).map(|path| format!("{path} in the next run")).collect()
}

fn segments_by_next(case: &Case<'_>) -> Vec<String> {
    let found = aftermath::segments(&case.looked.text(SEGMENTS), case.names.key());
    found.into_iter().map(|segment| format!("{segment} in the next run")).collect()
}
