//! Texts of a profile, an agent's posture, settings and an ask, with `---` between them: each is refused with a place, or bounds what is granted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_policy::{Ask, Capabilities, Grant, Profile, ProfileError, parse_bound, parse_settings, resolve};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.splitn(4, "\n---\n");
    let mut next = || parts.next().unwrap_or_default();
    let (profile, agent, settings, ask) = (next(), next(), next(), next());
    let profile = told(profile, Profile::parse("f", profile));
    let agent = told(agent, parse_bound("f", agent)).unwrap_or(Capabilities::unlimited());
    let ceiling = told(settings, parse_settings("f", settings)).map_or_else(Capabilities::unlimited, |settings| settings.ceiling);
    if let Some(profile) = profile {
        decide(&ceiling, &profile, &agent, &serde_json::from_str(ask).unwrap_or_default());
    }
});

/// What was read; a refusal names a place that is there and says how to mend it.
fn told<T>(text: &str, read: Result<T, ProfileError>) -> Option<T> {
    read.inspect_err(|error| {
        assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1, "line {} of {text:?}", error.line);
        assert!(error.column >= 1 && !error.cause.is_empty() && !error.fix.is_empty(), "{error:?}");
    })
    .ok()
}

fn decide(ceiling: &Capabilities, profile: &Profile, agent: &Capabilities, ask: &Ask) {
    let bound = ceiling.meet(&profile.bound).meet(agent);
    for side in [ceiling, &profile.bound, agent] {
        assert!(side.covers(&bound), "a meet is larger than one of its sides");
    }
    assert_eq!(bound, agent.meet(ceiling).meet(&profile.bound), "a meet depends on the order of its sides");
    if let Ok(grant) = resolve(ceiling, profile, agent, ask) {
        assert!(bound.covers(&grant.capabilities), "a grant is larger than its bound");
        let record = serde_json::to_string(&grant).unwrap();
        assert_eq!(serde_json::from_str::<Grant>(&record).unwrap(), grant, "a grant is not what its record says");
    }
}
