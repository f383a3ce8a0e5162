//! Rules that change while somebody is asked: what was agreed to under others does not take effect.

use super::rig::{CHECK, FIX, Rig};
use crate::support::User;

const CHECKED: &str = "checks = [\"python3 tests/test_calc.py\"]\n";

/// Asks, has it approved but not applied, and answers with the artifact and the promotion.
fn approved(rig: &Rig) -> (String, serde_json::Value) {
    let digest = rig.patch(FIX);
    let asked = rig.promote(&digest, "main");
    let later = rig.place.ringfence(&["approval", "approve", &Rig::approval(&asked), "--as", "anna", "--later"]);
    assert_eq!(later.status, 0, "{later:?}");
    (digest, asked)
}

#[test]
fn a_target_that_was_changed_or_removed_makes_what_waits_stale() {
    assert!(CHECKED.contains(CHECK));
    for settings in [format!("{CHECKED}quorum = 2\n"), String::new()] {
        let rig = Rig::new(User::Ordinary);
        let (before, (digest, asked)) = (rig.tip(), approved(&rig));
        rig.settings(&settings, "");
        // Asked again under the new rules it begins anew.
        let again = rig.promote(&digest, "main");
        let old = rig.show(&asked);
        assert_eq!((old["state"].as_str(), rig.tip()), (Some("stale"), before), "{old}");
        assert!(old["cause"].as_str().unwrap().contains("not what they were"), "{old}");
        assert_eq!(again["promotion"], asked["promotion"], "whoever asked hears of it: {again}");
        assert_eq!(rig.promote(&digest, "main")["state"], "waiting");
    }
}

#[test]
fn a_ceiling_that_closes_stops_what_waits() {
    let rig = Rig::new(User::Ordinary);
    let (before, (_, asked)) = (rig.tip(), approved(&rig));
    let settings = std::fs::read_to_string(rig.place.home().join("ringfence.toml")).unwrap();
    rig.place.write("home/ringfence.toml", format!("{settings}\n[ceiling.promotions]\nallow = []\n"));
    rig.place.ringfence(&["promotion", "undo", asked["promotion"].as_str().unwrap()]);
    let settled = rig.place.ringfence(&["approval", "approve", &Rig::approval(&asked), "--as", "anna"]);
    assert_ne!(settled.status, 0, "{settled:?}");
    assert_eq!(rig.tip(), before);
}

#[test]
fn an_agent_that_was_suspended_holds_its_promotions_up() {
    let rig = Rig::new(User::Ordinary);
    rig.place.write(
        "fixer.toml",
        "id = \"fixer\"\nname = \"Fixer\"\npurpose = \"mends\"\nowner = \"anna\"\nteam = \"tools\"\nprofiles = [\"code-change\"]\nreview-by = \"9999-12-31\"\n",
    );
    assert_eq!(rig.place.ringfence(&["agent", "add", "fixer.toml"]).status, 0);
    let submitted = rig.place.ringfence(&["agent", "submit", "fixer"]).stdout;
    let approval = submitted.split_whitespace().last().unwrap().to_owned();
    let active = rig.approve(&approval, "anna");
    assert!(active.status == 0 && active.stdout.contains("agent `fixer` is active"), "{active:?}");

    let options = ["--agent", "fixer", "--profile", "code-change", "--project", "src", "--export", "changes.patch"];
    let digest = rig.artifact(&options, &format!("export PYTHONDONTWRITEBYTECODE=1; {FIX}"));
    let asked = rig.promote(&digest, "main");
    assert_eq!(rig.place.ringfence(&["approval", "approve", &Rig::approval(&asked), "--as", "anna", "--later"]).status, 0);
    let before = rig.tip();
    assert_eq!(rig.place.ringfence(&["agent", "suspend", "fixer"]).status, 0);
    let held = rig.place.ringfence(&["promote", &digest, "--to", "main"]);
    assert!(held.status == 125 && held.stderr.contains("suspended") && rig.tip() == before, "{held:?}");

    // It serves again, as a new version; what waited was agreed to and goes on.
    let resumed = rig.place.ringfence(&["agent", "resume", "fixer"]).stdout;
    let approval = resumed.split_whitespace().last().unwrap().to_owned();
    assert_eq!(rig.approve(&approval, "anna").status, 0);
    assert_eq!(rig.promote(&digest, "main")["state"], "applied");
}
