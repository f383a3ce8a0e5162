//! The profiles that ship, and the schema of their format.

use ringfence_policy::{Capabilities, Execution, LimitKey, Matrix, Profile, Set, Tier, shipped};

fn profile(name: &str) -> Profile {
    let found = shipped().iter().find(|s| s.name == name).unwrap();
    Profile::parse(name, found.text).unwrap()
}

#[test]
fn all_eight_profiles_read_and_are_named_as_their_files() {
    let names: Vec<&str> = shipped().iter().map(|s| s.name).collect();
    assert_eq!(names, ["no-code", "data-analysis", "code-change", "web-research", "scratch", "governed-ops", "high-assurance", "base"]);
    for name in names {
        let profile = profile(name);
        assert_eq!(profile.name.as_str(), name);
        assert!(!profile.summary.is_empty());
    }
}

#[test]
fn the_default_profile_has_no_network_no_installs_and_the_written_limits() {
    let bound = profile("data-analysis").bound;
    assert!(bound.network.is_none() && bound.tools.is_none() && bound.reveal.is_none());
    assert_eq!(bound.packages.most(), ringfence_policy::PackageMode::None);
    let limits: Vec<(LimitKey, u64)> = bound.limits.iter().collect();
    assert_eq!(
        limits,
        [
            (LimitKey::Wall, 300_000),
            (LimitKey::Cpu, 300_000),
            (LimitKey::Memory, 1 << 30),
            (LimitKey::Processes, 128),
            (LimitKey::Output, 4 << 20),
            (LimitKey::Disk, 1 << 30),
            (LimitKey::Files, 50_000),
            (LimitKey::OpenFiles, 1024),
            (LimitKey::Artifacts, 1000),
            (LimitKey::ArtifactBytes, 256 << 20),
        ]
    );
}

#[test]
fn code_execution_off_and_a_stronger_tier_are_profiles_of_their_own() {
    assert_eq!(profile("no-code").bound.execution, Execution::None);
    assert_eq!(profile("high-assurance").bound.tier, Tier::Gvisor);
}

#[test]
fn the_matrix_begins_with_the_five_safe_defaults() {
    let profiles: Vec<Profile> = shipped().iter().map(|s| profile(s.name)).collect();
    let matrix = Matrix::of(&Capabilities::unlimited(), [], &profiles, |p| (p.bound.tier != Tier::Process).then(|| "a tier".to_owned()));
    assert_eq!(matrix.rows[0].values[6], "no: needs a tier");
    let actions: Vec<&str> = matrix.safe_defaults.iter().map(|d| d.action.as_str()).collect();
    assert_eq!(
        actions,
        ["parse a local CSV", "install an arbitrary package", "read a host secret", "call a production API", "deploy generated code"]
    );
    assert!(matrix.safe_defaults.iter().all(|d| d.answers.len() == 8));
    assert!(matrix.safe_defaults[2].answers.iter().all(|a| a == "denied"));
}

#[test]
fn an_empty_list_allows_nothing() {
    let profile = Profile::parse("x", "name = \"x\"\n[network]\nallow = []\n").unwrap();
    assert_eq!(profile.bound.network, Set::none());
}
