//! What survives the end?

use ringfence_policy::Spawn;

use super::super::aftermath;
use super::super::answer::Item;
use super::super::attempts::{LEFT_IN, SEGMENTS};
use super::Case;

/// The kernel's answer where the filter refuses System V memory, which nothing counts without a cgroup.
const EPERM: i32 = 1;

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let after = case.after;
    let nothing = |capability: &str, found: &[String]| Item::nothing(capability, "nothing", found);
    vec![
        processes(case),
        nothing("cgroups", &after.cgroups),
        nothing("mounts", &after.mounts),
        nothing("folders of the run", &after.folders),
        files(case),
        segments(case),
    ]
}

fn processes(case: &Case<'_>) -> Item {
    let tried = format!("leave-process={}", case.names.mark);
    let is_fair = match case.declared.capabilities.spawn {
        Spawn::None => case.left.facts.errno(&tried) == Some(EPERM),
        Spawn::Own | Spawn::Any => case.left.facts.worked(&tried),
    };
    left(case, "processes", is_fair, &tried, &case.after.processes)
}

fn files(case: &Case<'_>) -> Item {
    let tried = LEFT_IN.map(|folder| format!("append={folder}/{}", case.names.mark));
    let found = [case.after.files.clone(), found_by_next(case)].concat();
    let failed = tried.iter().find(|tried| !case.left.facts.worked(tried));
    left(case, "files in /tmp and /dev/shm", failed.is_none(), failed.unwrap_or(&tried[0]), &found)
}

fn segments(case: &Case<'_>) -> Item {
    let tried = format!("leave-segment={}", case.names.key());
    let is_fair = case.left.facts.errno(&tried).is_some_and(|errno| [0, EPERM].contains(&errno));
    left(case, "System V segments", is_fair, &tried, &[case.after.segments.clone(), segments_by_next(case)].concat())
}

/// What could not be left behind although it should have been says nothing about what survives.
fn left(case: &Case<'_>, capability: &str, is_fair: bool, tried: &str, found: &[String]) -> Item {
    match is_fair {
        true => Item::nothing(capability, "nothing", found),
        false => Item::new(capability, "nothing", format!("not measured: leaving one {}", case.left.facts.words(tried)), false),
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
