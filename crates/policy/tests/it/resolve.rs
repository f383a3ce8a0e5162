//! Decisions: what narrows silently, what is refused, and who is named.

use ringfence_policy::{Ask, Layer, Profile, Refusal, Sensitivity, State, Storage, Tier, parse_bound, parse_settings, resolve};

const PROFILE: &str = r#"
name = "test"
execution = "commands"
[files]
inputs = "named"
exports = ["out/**"]
reveal = ["conf/**"]
[environment]
allow = ["APP_*"]
[network]
allow = ["*.example.com:443"]
[process]
spawn = "any"
[limits]
wall = "10s"
cpu = "10s"
memory = "256MiB"
processes = 64
output = "1MiB"
disk = "64MiB"
files = 1000
open-files = 256
artifacts = 10
artifact-bytes = "1MiB"
network-bytes = "1MiB"
network-requests = 100
"#;

fn decide(ceiling: &str, agent: &str, ask: &Ask) -> Result<ringfence_policy::Grant, Refusal> {
    let ceiling = parse_settings("ceiling", ceiling).unwrap().ceiling;
    resolve(&ceiling, &Profile::parse("profile", PROFILE).unwrap(), &parse_bound("agent", agent).unwrap(), ask)
}

fn refused(ceiling: &str, agent: &str, ask: &Ask) -> (Layer, String, String) {
    let refusal = decide(ceiling, agent, ask).unwrap_err();
    (refusal.layer, refusal.rule, refusal.hint)
}

fn with_limit(text: &str) -> Ask {
    let mut ask = Ask::default();
    ask.limits.parse_and_set(text).unwrap();
    ask
}

#[test]
fn bounds_narrow_each_other_silently_and_the_layer_that_won_is_named() {
    let grant = decide("[ceiling.limits]\nmemory = \"128MiB\"\n", "[limits]\nwall = \"5s\"\n", &Ask::default()).unwrap();
    let decided = |field: &str| {
        let decision = grant.decisions.iter().find(|d| d.field == field).unwrap();
        (decision.value.clone(), decision.layers.clone())
    };
    assert_eq!(decided("memory"), ("128 MiB".into(), vec![Layer::Ceiling]));
    assert_eq!(decided("wall"), ("5 s".into(), vec![Layer::Agent]));
    assert_eq!(decided("cpu"), ("10 s".into(), vec![Layer::Profile]));
}

#[test]
fn a_named_value_inside_the_bound_narrows_and_one_outside_refuses() {
    let grant = decide("", "", &with_limit("memory=64MiB")).unwrap();
    assert_eq!(grant.capabilities.limits.get(ringfence_policy::LimitKey::Memory), Some(64 << 20));
    let (layer, rule, hint) = refused("", "", &with_limit("memory=2GiB"));
    assert_eq!((layer, rule.as_str()), (Layer::Profile, "limit `memory` of 2 GiB is above the bound of 256 MiB"));
    assert!(hint.contains("profile `test`"), "{hint}");
    let (layer, _, hint) = refused("[ceiling.limits]\nmemory = \"32MiB\"\n", "", &with_limit("memory=64MiB"));
    assert_eq!(layer, Layer::Ceiling);
    assert!(hint.contains("ringfence.toml"), "{hint}");
    assert_eq!(refused("", "[limits]\nmemory = \"32MiB\"\n", &with_limit("memory=64MiB")).0, Layer::Agent);
}

#[test]
fn one_named_destination_is_the_only_one() {
    let ask = Ask { destinations: vec!["api.example.com:443".parse().unwrap()], ..Ask::default() };
    assert_eq!(decide("", "", &ask).unwrap().capabilities.network.to_string(), "https://api.example.com:443");
    let ask = Ask { destinations: vec!["api.example.org:443".parse().unwrap()], ..Ask::default() };
    assert_eq!(refused("", "", &ask).0, Layer::Profile);
}

#[test]
fn a_ceiling_without_wildcards_leaves_named_hosts_only() {
    let ceiling = "[ceiling.network]\nwildcards = \"none\"\n";
    assert!(decide(ceiling, "", &Ask::default()).unwrap().capabilities.network.is_none());
    let ask = Ask { destinations: vec!["api.example.com:443".parse().unwrap()], ..Ask::default() };
    assert_eq!(decide(ceiling, "", &ask).unwrap().capabilities.network.to_string(), "https://api.example.com:443");
    let ask = Ask { destinations: vec!["*.example.com:443".parse().unwrap()], ..Ask::default() };
    assert_eq!(refused(ceiling, "", &ask).0, Layer::Ceiling);
}

#[test]
fn files_variables_and_tiers_are_checked_against_the_bound() {
    let ask = Ask { exports: vec!["secret/x".parse().unwrap()], ..Ask::default() };
    assert_eq!(refused("", "", &ask).1, "`secret/x` may not be exported");
    let ask = Ask { exports: vec!["out/*.csv".parse().unwrap()], ..Ask::default() };
    assert!(decide("", "", &ask).is_ok());
    let ask = Ask { project: true, ..Ask::default() };
    assert_eq!(refused("", "", &ask).1, "a project is not allowed");
    let ask = Ask { environment: vec!["OTHER".parse().unwrap()], ..Ask::default() };
    assert_eq!(refused("", "", &ask).1, "variable `OTHER` may not be set");
    let ask = Ask { reveal: vec![".env".parse().unwrap()], ..Ask::default() };
    assert_eq!(refused("", "", &ask).1, "hidden file `.env` may not be revealed");
    let ask = Ask { tier: Some(Tier::Process), ..Ask::default() };
    assert_eq!(refused("[ceiling]\ntier = \"gvisor\"\n", "", &ask).0, Layer::Ceiling);
}

/// A state is named by the request, allowed by every layer, and never of a project.
#[test]
fn what_is_written_outlives_the_run_only_where_it_is_allowed_and_named() {
    let profile = |state: &str| Profile::parse("p", &PROFILE.replace("[environment]", &format!("{state}\n[environment]"))).unwrap();
    let decide = |state: &str, ceiling: &str, ask: Ask| {
        let ceiling = parse_settings("ceiling", ceiling).unwrap().ceiling;
        resolve(&ceiling, &profile(state), &parse_bound("agent", "").unwrap(), &ask).map(|grant| grant.capabilities.state)
    };
    let named = "state = \"named\"\nproject = \"view\"";
    let notes = Ask { state: Some("notes".parse().unwrap()), ..Ask::default() };
    let later = Ask { from_session: true, ..Ask::default() };
    for ask in [&notes, &later] {
        assert_eq!(decide(named, "", ask.clone()), Ok(State::Named));
        assert_eq!(decide("", "", ask.clone()).unwrap_err().layer, Layer::Profile);
        let refusal = decide(named, "[ceiling.files]\nstate = \"none\"\n", ask.clone()).unwrap_err();
        assert_eq!((refusal.layer, refusal.hint.contains("state = \"named\"")), (Layer::Ceiling, true), "{refusal:?}");
        let refusal = decide(named, "", Ask { project: true, ..ask.clone() }).unwrap_err();
        assert_eq!((refusal.layer, refusal.rule.contains("project")), (Layer::Request, true), "{refusal:?}");
    }
    assert_eq!(decide("", "", Ask::default()), Ok(State::None));
    let text = serde_json::to_string(&Ask::default()).unwrap();
    assert!(!text.contains("state") && !text.contains("session"), "an older record reads the same: {text}");
}

/// Disk is had only by those who name it, and only where every layer allows it.
#[test]
fn storage_is_on_disk_only_where_it_is_allowed_and_named() {
    let profile = |storage: &str| Profile::parse("p", &PROFILE.replace("[environment]", &format!("{storage}\n[environment]"))).unwrap();
    let decide = |storage: &str, ceiling: &str, ask: Option<Storage>| {
        let ceiling = parse_settings("ceiling", ceiling).unwrap().ceiling;
        let ask = Ask { storage: ask, ..Ask::default() };
        resolve(&ceiling, &profile(storage), &parse_bound("agent", "").unwrap(), &ask).map(|grant| grant.capabilities.storage)
    };
    let disk = "storage = \"disk\"";
    assert_eq!(decide(disk, "", Some(Storage::Disk)), Ok(Storage::Disk));
    assert_eq!(decide(disk, "", None), Ok(Storage::Memory));
    assert_eq!(decide(disk, "", Some(Storage::Memory)), Ok(Storage::Memory));
    assert_eq!(decide("", "", None), Ok(Storage::Memory));
    let refusal = decide("", "", Some(Storage::Disk)).unwrap_err();
    assert_eq!((refusal.layer, refusal.rule.as_str()), (Layer::Profile, "storage on disk is not allowed"));
    let refusal = decide(disk, "[ceiling.files]\nstorage = \"memory\"\n", Some(Storage::Disk)).unwrap_err();
    assert_eq!(refusal.layer, Layer::Ceiling);
    assert!(refusal.hint.contains("storage = \"disk\""), "{refusal:?}");
}

#[test]
fn what_is_asked_of_a_place_is_what_is_allowed_there() {
    let ask = |place: &str| Ask { destinations: vec![place.parse().unwrap()], ..Ask::default() };
    let agent = "[network]\nallow = [\"*.example.com:443 methods=GET,HEAD paths=/v1\"]\n";
    let granted = |place: &str| decide("", agent, &ask(place)).unwrap().capabilities.network.to_string();
    assert_eq!(granted("api.example.com:443"), "https://api.example.com:443 methods=GET,HEAD paths=/v1");
    assert_eq!(granted("api.example.com:443 methods=GET"), "https://api.example.com:443 methods=GET paths=/v1");
    let (layer, rule, hint) = refused("", agent, &ask("api.example.com:443 methods=POST"));
    assert_eq!(layer, Layer::Agent);
    assert!(rule.contains("methods=POST") && hint.contains("[network]"), "{rule} {hint}");
}

#[test]
fn sensitive_work_needs_the_tier_that_the_ceiling_asks_for() {
    let ceiling = "[ceiling.tiers]\nconfidential = \"gvisor\"\nrestricted = \"microvm\"\n";
    let ask = |sensitivity| Ask { sensitivity: Some(sensitivity), ..Ask::default() };
    let tier = |agent: &str, ask: &Ask| decide(ceiling, agent, ask).unwrap().capabilities.tier;
    assert_eq!(tier("", &Ask::default()), Tier::Process);
    assert_eq!(tier("", &ask(Sensitivity::Internal)), Tier::Process);
    assert_eq!(tier("", &ask(Sensitivity::Confidential)), Tier::Gvisor);
    assert_eq!(tier("sensitivity = \"restricted\"\n", &ask(Sensitivity::Public)), Tier::Microvm);
}

#[test]
fn only_the_operator_excepts_addresses_from_the_refused_ranges() {
    let ceiling = parse_settings("ceiling", "[ceiling.network]\nprivate = [\"10.20.0.0/16\"]\n").unwrap().ceiling;
    assert_eq!(ceiling.private.to_string(), "10.20.0.0/16");
    assert_eq!(parse_settings("ceiling", "").unwrap().ceiling.private.to_string(), "none");
    let error = parse_bound("agent", "[network]\nprivate = [\"10.0.0.0/8\"]\n").unwrap_err();
    assert!(error.fix.contains("[ceiling.network]") && error.line == 2, "{error}");
    let granted = decide("[ceiling.network]\nprivate = [\"10.20.0.0/16\"]\n", "", &Ask::default()).unwrap();
    assert_eq!(granted.capabilities.private.to_string(), "10.20.0.0/16");
}

#[test]
fn a_credential_goes_where_the_profile_may_go() {
    let with = |place: &str| format!("{PROFILE}[credentials]\nallow = [\"key: https://{place}:443 header=x-key variable=KEY\"]\n");
    assert!(Profile::parse("p", &with("api.example.com")).is_ok());
    let error = Profile::parse("p", &with("api.example.org")).unwrap_err();
    assert!(error.cause.contains("does not allow") && error.line > 20, "{error}");
}

/// The list of a ceiling holds for a profile that is open for another language, too.
#[test]
fn an_open_profile_under_a_list_has_what_is_listed() {
    let profile = PROFILE.replace("[process]", "[packages]\npython = \"open\"\nnode = \"open\"\n[process]");
    let ceiling = "[ceiling.packages]\npython = \"allowlist\"\nallow = [\"python:requests>=2\"]\nminimum-age = \"24h\"\n";
    let (ceiling, profile) = (parse_settings("c", ceiling).unwrap().ceiling, Profile::parse("p", &profile).unwrap());
    let grant = resolve(&ceiling, &profile, &parse_bound("a", "").unwrap(), &Ask::default()).unwrap();
    let shown = "python allowlist, node open, rust none; list: python:requests>=2; at least 72 h old";
    assert_eq!(grant.capabilities.packages.to_string(), shown);
    let ceiling = parse_settings("c", "[ceiling.packages]\npython = \"allowlist\"\n").unwrap().ceiling;
    let grant = resolve(&ceiling, &profile, &parse_bound("a", "").unwrap(), &Ask::default()).unwrap();
    assert_eq!(grant.capabilities.packages.to_string(), "python allowlist, node open, rust none; list: none; at least 72 h old");
}

#[test]
fn a_run_sees_one_image_and_every_layer_may_narrow_which() {
    const PINNED: &str = "tools:latest@sha256:1111111111111111111111111111111111111111111111111111111111111111";
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let profile = |image: &str| Profile::parse("p", &format!("{image}\n{PROFILE}")).unwrap();
    let decide = |image: &str, ceiling: &str, agent: &str| {
        let ceiling = parse_settings("ceiling", ceiling).unwrap().ceiling;
        resolve(&ceiling, &profile(image), &parse_bound("agent", agent).unwrap(), &Ask::default())
            .map(|grant| grant.capabilities.image.to_string())
    };
    assert_eq!(decide("", "", "").unwrap(), "host");
    assert_eq!(decide("image = \"tools\"", "", "").unwrap(), "tools:latest");
    assert_eq!(decide("image = \"tools\"", "[ceiling]\nimage = [\"host\", \"tools\"]", "").unwrap(), "tools:latest");
    let approved = format!("[ceiling]\nimage = [\"host\", \"{}\"]", digest("1"));
    assert_eq!(decide("image = \"tools\"", &approved, "").unwrap(), PINNED);
    let refusal = decide("image = \"tools\"", "[ceiling]\nimage = \"host\"", "").unwrap_err();
    assert_eq!((refusal.layer, refusal.rule.as_str()), (Layer::Ceiling, "image `tools:latest` is not allowed"));
    let refusal = decide("", "", "image = [\"tools\"]").unwrap_err();
    assert_eq!((refusal.layer, refusal.rule.as_str()), (Layer::Agent, "image `host` is not allowed"));
    let several = format!("[ceiling]\nimage = [\"{}\", \"{}\"]", digest("1"), digest("2"));
    let refusal = decide("image = \"tools\"", &several, "").unwrap_err();
    assert!(refusal.layer == Layer::Profile && refusal.rule.contains("may be any of"), "{refusal:?}");
    assert!(Profile::parse("p", &format!("image = [\"host\"]\n{PROFILE}")).unwrap_err().cause.contains("one image"));
    assert!(Profile::parse("p", &format!("image = \"../x\"\n{PROFILE}")).unwrap_err().cause.contains("not the name of an image"));
}

#[test]
fn a_record_from_before_there_were_images_means_the_host_and_is_written_as_it_was() {
    let grant = decide("", "", &Ask::default()).unwrap();
    let written = serde_json::to_value(&grant.capabilities).unwrap();
    assert!(written.get("image").is_none(), "{written}");
    assert_eq!(serde_json::from_value::<ringfence_policy::Capabilities>(written).unwrap(), grant.capabilities);
}
