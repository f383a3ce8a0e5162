//! The laws of `meet`, over random capabilities, and parsing that prints what it read.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use ringfence_policy::{
    AddressRange, ArtifactKind, Capabilities, CredentialBinding, Destination, Execution, Grade, Grades, ImageName, Inputs, InstallScripts,
    Kernel, LeastTiers, LimitKey, Limits, MinimumAge, NamePattern, PackageMode, PackageRule, PackageVersion, Packages, PathScope, Project,
    Sensitivity, Set, SourceBuilds, Spawn, State, Storage, Tier, Wildcards,
};

fn choice<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}

fn set<T>(words: &'static [&'static str]) -> impl Strategy<Value = Set<T>>
where
    T: ringfence_policy::Element + std::fmt::Debug + std::str::FromStr,
    T::Err: std::fmt::Debug,
{
    let some = vec(proptest::sample::select(words), 0..4).prop_map(|words| Set::only(words.iter().map(|w| w.parse::<T>().unwrap())));
    prop_oneof![1 => Just(Set::All), 6 => some]
}

fn tiers(listed: Vec<(Sensitivity, Tier)>) -> LeastTiers {
    let mut tiers = LeastTiers::default();
    listed.into_iter().for_each(|(sensitivity, tier)| tiers.set(sensitivity, tier));
    tiers
}

fn limits() -> impl Strategy<Value = Limits> {
    btree_map(choice(&LimitKey::ALL), 0u64..5, 0..6).prop_map(|values| {
        let mut limits = Limits::default();
        values.into_iter().for_each(|(key, value)| limits.set(key, value));
        limits
    })
}

const PATHS: &[&str] = &["**", "out/**", "out/a/**", "out/a", "report.md", "out"];
const NAMES: &[&str] = &["*", "APP_*", "APP_MODE", "HOME", "APP_M*"];
const PLACES: &[&str] = &[
    "*.example.com:443",
    "api.example.com:443",
    "*.api.example.com:443",
    "api.example.com:80",
    "db.example.org:5432",
    "api.example.com:443 methods=GET,HEAD",
    "api.example.com:443 methods=GET paths=/v1",
    "*.example.com:443 paths=/v1/a,/v2",
];
const RANGES: &[&str] = &["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "fd00::/8", "fd00:1::/32", "0.0.0.0/0"];
const BINDINGS: &[&str] = &[
    "a: https://api.example.com:443 header=authorization variable=T",
    "a: https://api.example.com:443 methods=GET header=authorization variable=T",
    "b: https://api.example.com:443 header=authorization variable=T",
];

const RULES: &[&str] = &[
    "python:*",
    "node:*",
    "python:x",
    "python:x>=1",
    "python:x>=1,<2",
    "python:x<2",
    "python:y==1.0",
    "node:x^1.2",
    "node:x",
    "rust:x=1.0.0-rc.1",
    "rust:x<2",
];
/// Without those that stand for every name, which list nothing by themselves.
const LISTED: &[&str] = RULES.split_at(2).1;
const AGES: &[&str] = &["0s", "90min", "72h", "7d"];

prop_compose! {
    fn packages()(
        modes in (choice(PackageMode::ALL), choice(PackageMode::ALL), choice(PackageMode::ALL)),
        allow in set::<PackageRule>(RULES),
        minimum_age in proptest::sample::select(AGES),
        source_builds in choice(SourceBuilds::ALL),
        install_scripts in choice(InstallScripts::ALL),
    ) -> Packages {
        let minimum_age: MinimumAge = minimum_age.parse().unwrap();
        Packages { python: modes.0, node: modes.1, rust: modes.2, allow, minimum_age, source_builds, install_scripts }
    }
}

const IMAGES: &[&str] = &["host", "tools", "tools:2", ONE, TWO, PINNED];
const ONE: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const TWO: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";
const PINNED: &str = "tools:latest@sha256:1111111111111111111111111111111111111111111111111111111111111111";

prop_compose! {
    fn capabilities()(
        kinds in (choice(Execution::ALL), choice(Inputs::ALL), choice(Project::ALL), choice(Spawn::ALL), choice(Kernel::ALL), choice(Tier::ALL)),
        paths in (set::<PathScope>(PATHS), set::<PathScope>(PATHS)),
        names in (set::<NamePattern>(NAMES), set::<NamePattern>(NAMES)),
        network in (set::<Destination>(PLACES), choice(Wildcards::ALL)),
        packages in packages(),
        grades in (choice(Grade::ALL), choice(Grade::ALL), choice(Grade::ALL)),
        (storage, state) in (choice(Storage::ALL), choice(State::ALL)),
        outside in (set::<AddressRange>(RANGES), set::<CredentialBinding>(BINDINGS)),
        sensitivity in (choice(Sensitivity::ALL), vec((choice(Sensitivity::ALL), choice(Tier::ALL)), 0..3)),
        image in set::<ImageName>(IMAGES),
        promotions in set::<ArtifactKind>(&["patch", "report", "sql", "other"]),
        limits in limits(),
    ) -> Capabilities {
        Capabilities {
            execution: kinds.0, inputs: kinds.1, project: kinds.2, spawn: kinds.3, kernel: kinds.4, tier: kinds.5,
            reveal: paths.0, exports: paths.1, environment: names.0, tools: names.1,
            network: network.0, wildcards: network.1,
            grades: Grades { memory: grades.0, cpu: grades.1, disk: grades.2 },
            private: outside.0, credentials: outside.1, sensitivity: sensitivity.0, tiers: tiers(sensitivity.1),
            limits, storage, state, packages, image, promotions,
        }
    }
}

proptest! {
    #[test]
    fn meet_is_commutative(a in capabilities(), b in capabilities()) {
        prop_assert_eq!(a.meet(&b), b.meet(&a));
    }

    #[test]
    fn meet_is_associative(a in capabilities(), b in capabilities(), c in capabilities()) {
        prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
    }

    #[test]
    fn meet_is_idempotent(a in capabilities()) {
        prop_assert_eq!(a.meet(&a), a);
    }

    #[test]
    fn meet_is_never_larger_than_either_side(a in capabilities(), b in capabilities()) {
        let met = a.meet(&b);
        prop_assert!(a.covers(&met) && b.covers(&met));
    }

    #[test]
    fn an_absent_ceiling_bounds_nothing_and_an_empty_profile_allows_nothing(a in capabilities()) {
        prop_assert_eq!(&Capabilities::unlimited().meet(&a), &a);
        prop_assert_eq!(a.meet(&Capabilities::nothing()).execution, Execution::None);
    }

    #[test]
    fn capabilities_survive_being_written_and_read(a in capabilities()) {
        let text = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(serde_json::from_str::<Capabilities>(&text).unwrap(), a);
    }

    #[test]
    fn what_a_destination_prints_it_reads(text in "(https://|http://|tcp://)?(\\*\\.)?[a-z0-9-]{1,8}(\\.[a-zA-Z0-9-]{1,8}){1,3}\\.?:[0-9]{1,5}") {
        if let Ok(read) = text.parse::<Destination>() {
            prop_assert_eq!(read.to_string().parse::<Destination>().unwrap(), read);
        }
    }

    #[test]
    fn what_both_lists_have_in_common_fits_no_version_that_one_refuses(
        a in set::<PackageRule>(LISTED),
        b in set::<PackageRule>(LISTED),
        version in "[0-2](\\.[0-9]){2}(-rc\\.1)?",
    ) {
        let with = |allow: Set<PackageRule>| Packages { allow, ..Packages::unlimited() };
        let (a, b) = (with(a), with(b));
        let met = a.meet(&b);
        for ecosystem in ringfence_policy::Ecosystem::ALL {
            let name = ringfence_policy::PackageName::parse(ecosystem, "x").unwrap();
            let version = PackageVersion::parse(ecosystem, &version).unwrap();
            let is_listed = |packages: &Packages| packages.lists_version(ecosystem, &name, &version);
            prop_assert_eq!(is_listed(&met), is_listed(&a) && is_listed(&b));
        }
    }

    #[test]
    fn a_limit_prints_what_it_reads(key in choice(&LimitKey::ALL), value in 0u64..1 << 50) {
        let value = value.max(key.least());
        prop_assert_eq!(key.parse_value(&key.show(value)).unwrap(), value);
    }
}
