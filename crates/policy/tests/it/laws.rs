//! The laws of `meet`, over random capabilities, and parsing that prints what it read.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use ringfence_policy::{
    Capabilities, Destination, Execution, Grade, Grades, ImageName, Inputs, Kernel, LimitKey, Limits, NamePattern, PackageMode, Packages,
    PathScope, Project, Set, Spawn, Storage, Tier, Wildcards,
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

fn limits() -> impl Strategy<Value = Limits> {
    btree_map(choice(&LimitKey::ALL), 0u64..5, 0..6).prop_map(|values| {
        let mut limits = Limits::default();
        values.into_iter().for_each(|(key, value)| limits.set(key, value));
        limits
    })
}

const PATHS: &[&str] = &["**", "out/**", "out/a/**", "out/a", "report.md", "out"];
const NAMES: &[&str] = &["*", "APP_*", "APP_MODE", "HOME", "APP_M*"];
const PLACES: &[&str] = &["*.example.com:443", "api.example.com:443", "*.api.example.com:443", "api.example.com:80", "db.example.org:5432"];

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
        packages in (choice(PackageMode::ALL), choice(PackageMode::ALL), choice(PackageMode::ALL)),
        grades in (choice(Grade::ALL), choice(Grade::ALL), choice(Grade::ALL)),
        storage in choice(Storage::ALL),
        image in set::<ImageName>(IMAGES),
        limits in limits(),
    ) -> Capabilities {
        Capabilities {
            execution: kinds.0, inputs: kinds.1, project: kinds.2, spawn: kinds.3, kernel: kinds.4, tier: kinds.5,
            reveal: paths.0, exports: paths.1, environment: names.0, tools: names.1,
            network: network.0, wildcards: network.1,
            packages: Packages { python: packages.0, node: packages.1, rust: packages.2 },
            grades: Grades { memory: grades.0, cpu: grades.1, disk: grades.2 },
            limits, storage, image,
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
    fn a_limit_prints_what_it_reads(key in choice(&LimitKey::ALL), value in 0u64..1 << 50) {
        let value = value.max(key.least());
        prop_assert_eq!(key.parse_value(&key.show(value)).unwrap(), value);
    }
}
