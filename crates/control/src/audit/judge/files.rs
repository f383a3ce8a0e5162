//! What file system can the code see?

use ringfence_policy::{Inputs, Project, Set, Spawn};

use super::super::answer::Item;
use super::super::attempts::{self, HOST_FILES, MOUNTS, TOP, WALK};
use super::super::facts::Facts;
use super::{Case, is_below};

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let mut items = vec![image(case), top(case), mounts(case), laid(case), writable(case), executable(case), host_files(case)];
    items.extend(inputs(case));
    items.extend(project(case));
    items
}

/// What was named is what was seen, exactly; the digest says which.
fn image(case: &Case<'_>) -> Item {
    let seen = &case.declared.image;
    let declared = case.declared.capabilities.image.to_string();
    let is_named = match &case.declared.capabilities.image {
        Set::Only(images) => images.iter().any(|image| seen.starts_with(&image.to_string())),
        Set::All => seen.starts_with("host,"),
    };
    Item::new("image", declared, seen.clone(), is_named)
}

/// Files that tell programs where the ways out are say what was planned.
fn laid(case: &Case<'_>) -> Item {
    let files = &case.declared.files;
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let declared = if paths.is_empty() { "none".to_owned() } else { paths.join(" ") };
    let differ = files.iter().filter(|(path, text)| case.looked.text(&attempts::file(path)) != *text);
    let differ: Vec<&str> = differ.map(|(path, _)| path.as_str()).collect();
    match differ.is_empty() {
        true => Item::new("files laid over it", declared, "as they were planned", true),
        false => Item::new("files laid over it", declared, format!("not as planned: {}", differ.join(" ")), false),
    }
}

fn top(case: &Case<'_>) -> Item {
    let names: Vec<String> = case.declared.top.iter().cloned().collect();
    let extra: Vec<String> = case.looked.lines(TOP).into_iter().filter(|name| !case.declared.top.contains(name)).collect();
    match case.looked.worked(TOP) {
        true => Item::nothing_else("folders of /", names.join(" "), &extra),
        false => Item::new("folders of /", names.join(" "), case.looked.words(TOP), false),
    }
}

fn mounts(case: &Case<'_>) -> Item {
    let given = |at: &String| at == "/inputs" || at == "/inputs/bait";
    let table = case.looked.lines(MOUNTS);
    let found = table.iter().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned);
    let extra: Vec<String> = found.filter(|at| !case.declared.mounts.contains(at) && !given(at)).collect();
    let declared = format!("{} of the plan, and inputs", case.declared.mounts.len());
    match table.is_empty() {
        true => Item::new("mounts", declared, "none could be listed", false),
        false => Item::nothing_else("mounts", declared, &extra),
    }
}

fn writable(case: &Case<'_>) -> Item {
    let lines = case.looked.lines(WALK);
    let found: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("writable ")).collect();
    let writable = case.declared.writable();
    let extra: Vec<String> = found.iter().filter(|path| !is_below(path, &writable)).map(|path| (*path).to_owned()).collect();
    let missing: Vec<&str> = writable.into_iter().filter(|path| !found.contains(path)).collect();
    match (missing.is_empty(), lines.iter().any(|line| line == "more")) {
        (true, false) => Item::nothing_else("can write", writable.join(" "), &extra),
        (true, true) => Item::new("can write", writable.join(" "), "not known: there are more folders than were looked at", false),
        (false, _) => Item::new("can write", writable.join(" "), format!("not {}", missing.join(" ")), false),
    }
}

fn executable(case: &Case<'_>) -> Item {
    let may = case.declared.capabilities.spawn == Spawn::Any;
    let declared = match case.declared.capabilities.spawn {
        Spawn::None => "nothing: no process may be started",
        Spawn::Own => "nothing: programs of the image only",
        Spawn::Any => "yes: any program that it can see",
    };
    let said = |place: &str| (place.to_owned(), case.looked.errno(&format!("run={place}")));
    let went: Vec<(String, Option<i32>)> = attempts::places(&case.declared.home).iter().map(|place| said(place)).collect();
    let places =
        |did: bool| went.iter().filter(|(_, errno)| (*errno == Some(0)) == did).map(|(place, _)| place.as_str()).collect::<Vec<_>>();
    // Memory without a name is refused where nothing counts it.
    let is_good = match may {
        true => places(false).iter().all(|place| *place == "memory"),
        false => places(true).is_empty() && went.iter().all(|(_, errno)| errno.is_some()),
    };
    let measured = match places(true).as_slice() {
        [] => "nothing".to_owned(),
        did => format!("from {}", did.join(" ")),
    };
    Item::new("can execute what it wrote", declared, measured, is_good)
}

fn host_files(case: &Case<'_>) -> Item {
    let bait = attempts::host_file(case.names);
    let tried = HOST_FILES.iter().map(|path| format!("read={path}")).chain([bait.clone()]);
    let read: Vec<String> = tried.filter(|tried| case.looked.worked(tried)).map(|tried| tried.replacen("read=", "", 1)).collect();
    match case.looked.errno(&bait) {
        Some(_) => Item::nothing("files of the host", "none", &read),
        None => Item::new("files of the host", "none", "not tried", false),
    }
}

fn inputs(case: &Case<'_>) -> Vec<Item> {
    if case.declared.capabilities.inputs == Inputs::None {
        return Vec::new();
    }
    let (is_read, is_written) = (case.looked.worked("read=/inputs/bait/notes.txt"), case.looked.worked("write=/inputs/bait"));
    let measured = match (is_read, is_written) {
        (true, false) => "read, not written",
        (true, true) => "read and written",
        (false, _) => "not seen",
    };
    vec![
        Item::new("an input", "read-only", measured, is_read && !is_written),
        Item::nothing("secrets in an input", "hidden by name", &visible(case.looked, "/inputs/bait")),
    ]
}

fn project(case: &Case<'_>) -> Option<Item> {
    let has_project = case.declared.capabilities.project == Project::View;
    has_project.then(|| Item::nothing("secrets in a project", "hidden by name", &visible(&case.left.facts, &case.declared.home)))
}

/// Secrets of the bait that could be read, or were never looked for.
fn visible(facts: &Facts, at: &str) -> Vec<String> {
    let path = |tried: String| tried.replacen("read=", "", 1);
    attempts::hidden(at).filter(|tried| facts.errno(tried).is_none_or(|errno| errno == 0)).map(path).collect()
}
