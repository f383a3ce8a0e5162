//! Which artifacts may go where, and under whose approval: said by the matrix, held against a dry run by the audit, and refused otherwise.

use serde_json::Value;

use super::rig::{FIX, Rig};
use crate::support::{User, users};

/// The cells of one row of the matrix.
fn row(matrix: &Value, name: &str) -> Vec<String> {
    let rows = matrix["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["capability"].as_str().unwrap().starts_with(name)).unwrap();
    row["values"].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_matrix_says_which_kinds_go_where_under_whose_approval() {
    let rig = Rig::with(
        User::Ordinary,
        "quorum = 2\ngroups = [\"maintainers\"]\nprotected-groups = [\"security\"]\n",
        "accepts = [\"report\"]\n",
    );
    let profiles = ["--profile", "code-change", "--profile", "data-analysis", "--profile", "scratch"];
    let matrix = rig.place.ringfence(&[&["matrix", "--format", "json"], &profiles[..]].concat());
    let matrix: Value = serde_json::from_str(&matrix.stdout).unwrap();
    let branch = "patch: by 2 of maintainers; protected paths also by 2 of security";
    assert_eq!(row(&matrix, "promotion to main"), [branch, "none", "none"]);
    assert_eq!(row(&matrix, "promotion to reports"), ["report: by 1 of any person", "report: by 1 of any person", "none"]);
    assert_eq!(matrix["safe_defaults"][4]["answers"], serde_json::json!(["approval", "approval", "denied: nothing is promoted"]));
}

#[test]
fn the_audit_answers_its_eighth_question_from_the_settings_and_a_dry_run() {
    let rig = Rig::new(User::Ordinary);
    let before = rig.tip();
    let audit = || {
        let done = rig.place.ringfence(&["audit", "--profile", "data-analysis", "--format", "json"]);
        (serde_json::from_str::<Value>(&done.stdout).unwrap()["answers"][7]["items"].clone(), done.status)
    };
    let item = |items: &Value, name: &str| items.as_array().unwrap().iter().find(|item| item["capability"] == name).cloned().unwrap();
    let (items, status) = audit();
    let (main, reports) = (item(&items, "promotion to main"), item(&items, "promotion to reports"));
    assert_eq!((status, main["declared"].as_str()), (0, Some("nothing")), "{items}");
    assert_eq!(reports["declared"], "report, image, notebook, data-set, by 1 of any person");
    assert!(reports["measured"].as_str().unwrap().contains("a dry run lets report, image, notebook, data-set through"), "{reports}");
    assert!(main["measured"].as_str().unwrap().contains(&before), "the branch was looked at: {main}");
    assert_eq!((rig.tip(), rig.place.ringfence(&["approval", "ls", "--all", "--json"]).stdout.trim()), (before, "[]"), "nobody was asked");
    rig.place.assert_clean();

    std::fs::remove_dir_all(rig.place.path("reports")).unwrap();
    let (items, status) = audit();
    assert_eq!((status, item(&items, "promotion to reports")["is_as_declared"].as_bool()), (1, Some(false)), "{items}");
}

#[test]
fn what_a_profile_a_ceiling_or_a_target_does_not_allow_is_refused_with_the_rule() {
    for user in users() {
        let rig = Rig::with(user, "", "profiles = [\"web-research\"]\n");
        let (patch, report) = (rig.patch(FIX), rig.report("x"));
        let scratch = rig.artifact(&["--profile", "scratch", "--export", "report.md"], "echo y > report.md");
        let other = rig.artifact(&["--profile", "code-change", "--export", "tool"], "echo z > tool");
        for (digest, target, rule) in [
            (&report, "reports", "does not take artifacts of kind `report` from profile `data-analysis`"),
            (&patch, "reports", "does not take artifacts of kind `patch`"),
            (&scratch, "reports", "was not granted that an artifact of kind `report`"),
            (&other, "main", "was not granted that an artifact of kind `other`"),
            (&report, "nowhere", "there is no target `nowhere`; there are main, reports"),
            (&report, "Main\x1b[31m", "is not the name of a target"),
            (&"sha256:00".to_owned(), "main", "is not a digest"),
            (&format!("sha256:{}", "0".repeat(64)), "main", "no run here made artifact"),
        ] {
            let done = rig.place.ringfence(&["promote", digest, "--to", target]);
            assert_eq!(done.status, 125, "{done:?}");
            assert!(done.stderr.contains(rule) && done.stderr.contains("hint: ") && !done.stderr.contains('\x1b'), "{rule}: {done:?}");
        }
        assert_eq!(rig.place.ringfence(&["promotion", "ls", "--json"]).stdout.trim(), "[]", "nothing of it is on record as asked");
        let settings = std::fs::read_to_string(rig.place.home().join("ringfence.toml")).unwrap();
        rig.place.write("home/ringfence.toml", format!("{settings}\n[ceiling.promotions]\nallow = [\"report\"]\n"));
        let done = rig.place.ringfence(&["promote", &patch, "--to", "main"]);
        assert!(done.status == 125 && done.stderr.contains("the ceiling lets nothing of kind `patch` be promoted"), "{done:?}");
    }
}

#[test]
fn what_is_printed_of_a_promotion_is_as_its_schema_says() {
    let rig = Rig::new(User::Ordinary);
    let schema: Value = serde_json::from_str(&rig.place.ringfence(&["schema", "promotion"]).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let asked = rig.promote(&rig.patch(FIX), "main");
    let done = rig.promoted(&rig.report("x"), "reports");
    for report in [asked, done] {
        assert!(validator.is_valid(&report), "{report}: {:?}", validator.iter_errors(&report).map(|e| e.to_string()).collect::<Vec<_>>());
    }
}
