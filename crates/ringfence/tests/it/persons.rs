//! Persons: who they are is in files of the home, and their keys are in files of their own.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Outcome, Place, binary, outcome};

fn assert_refused(outcome: &Outcome, what: &str) {
    assert_eq!((outcome.status, outcome.stdout.as_str()), (125, ""), "{outcome:?}");
    assert!(outcome.stderr.contains(what), "wanted {what:?} in {:?}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: ") || outcome.stderr.contains("Usage:"), "no way out: {:?}", outcome.stderr);
    assert!(!outcome.stderr.contains('\x1b'), "{outcome:?}");
}

fn add(place: &Place, arguments: &[&str]) -> Outcome {
    place.ringfence(&[&["person", "add"], arguments].concat())
}

fn listed(place: &Place) -> Value {
    let outcome = place.ringfence(&["person", "ls", "--json"]);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"))
}

fn person(place: &Place, name: &str) -> Value {
    listed(place).as_array().unwrap().iter().find(|person| person["name"] == name).cloned().unwrap_or_else(|| panic!("no {name}"))
}

fn key_of(place: &Place, name: &str) -> PathBuf {
    place.path(&format!("nobody-home/.config/ringfence/{name}.key"))
}

#[test]
fn a_person_is_registered_with_a_key_in_a_file_of_their_own() {
    for place in Place::each() {
        place.folder("nobody-home");
        let added = add(&place, &["anna", "--identity", "anna@example.com", "--group", "security", "--group", "data"]);
        assert!(added.status == 0 && added.stdout.contains("person `anna` (anna@example.com) is registered"), "{added:?}");
        let meta = fs::metadata(key_of(&place, "anna")).unwrap();
        assert_eq!((meta.mode() & 0o777, meta.is_file()), (0o600, true));
        let anna = person(&place, "anna");
        assert_eq!((&anna["groups"], &anna["state"]), (&serde_json::json!(["data", "security"]), &"active".into()));
        let record = fs::read_to_string(place.home().join("persons/anna.json")).unwrap();
        assert!(record.contains("BEGIN PUBLIC KEY") && !record.contains("PRIVATE"), "{record}");
        assert_eq!(fs::metadata(place.home().join("persons/anna.json")).unwrap().mode() & 0o777, 0o600);
        // The public part that openssl finds in the file is the registered one.
        let public = outcome(place.command("openssl").args(["pkey", "-pubout", "-in"]).arg(key_of(&place, "anna")).output().unwrap());
        assert_eq!(public.stdout, anna["public_key"].as_str().unwrap());
        let table = place.ringfence(&["person", "ls"]).stdout;
        assert!(table.contains("anna@example.com") && table.contains("data, security"), "{table}");
    }
}

#[test]
fn a_key_is_never_made_over_a_file_nor_beneath_the_home() {
    for place in Place::each() {
        place.folder("nobody-home");
        let mine = place.write("mine.key", "MINE");
        assert_refused(&add(&place, &["anna", "--key", "mine.key"]), "a file of that name is there");
        symlink("nowhere", place.path("link.key")).unwrap();
        assert_refused(&add(&place, &["anna", "--key", "link.key"]), "a file of that name is there");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "MINE");
        for inside in ["home/anna.key", "home/persons/x/anna.key"] {
            assert_refused(&add(&place, &["anna", "--key", inside]), "beneath the home");
        }
        assert!(!place.home().join("persons/anna.json").exists() && !place.path("nowhere").exists());
        assert_eq!(add(&place, &["anna", "--key", "keys/own/anna.key"]).status, 0);
        assert_eq!(fs::metadata(place.path("keys/own")).unwrap().mode() & 0o777, 0o700);
        let mut command = place.command(binary());
        command.args(["person", "add", "ben"]).env("XDG_CONFIG_HOME", place.path("configuration"));
        assert_eq!(outcome(command.output().unwrap()).status, 0);
        assert!(place.path("configuration/ringfence/ben.key").exists());
        let mut command = place.command(binary());
        command.args(["person", "add", "carl"]).env_remove("HOME").env_remove("XDG_CONFIG_HOME");
        assert_refused(&outcome(command.output().unwrap()), "no place for the key");
    }
}

#[test]
fn a_name_an_identity_and_a_key_are_one_persons() {
    for place in Place::each() {
        place.folder("nobody-home");
        assert_eq!(add(&place, &["anna", "--identity", "Anna@Example.com"]).status, 0);
        assert_refused(&add(&place, &["anna"]), "person `anna` is registered already");
        let again = add(&place, &["ben", "--identity", "anna@example.COM"]);
        assert_refused(&again, "is that of person `anna` already");
        assert!(!key_of(&place, "ben").exists());
        place.write("anna.pub", person(&place, "anna")["public_key"].as_str().unwrap());
        assert_refused(&add(&place, &["ben", "--public-key", "anna.pub"]), "this public key is that of person `anna` already");
        assert_refused(&add(&place, &["ben", "--public-key", "anna.pub", "--key", "x"]), "cannot be used with");
        let private = key_of(&place, "anna");
        assert_refused(&add(&place, &["ben", "--public-key", private.to_str().unwrap()]), "does not hold a key");
        assert_eq!(listed(&place).as_array().unwrap().len(), 2, "anna and the login user");
    }
}

#[test]
fn a_public_key_alone_is_enough() {
    for place in Place::each() {
        let made = outcome(place.command("openssl").args(["genpkey", "-algorithm", "ed25519", "-out", "ben.pem"]).output().unwrap());
        assert_eq!(made.status, 0, "{made:?}");
        let public = outcome(place.command("openssl").args(["pkey", "-in", "ben.pem", "-pubout", "-out", "ben.pub"]).output().unwrap());
        assert_eq!(public.status, 0, "{public:?}");
        let added = add(&place, &["ben", "--public-key", "ben.pub"]);
        assert!(added.status == 0 && added.stdout.contains("only the public key is known here"), "{added:?}");
        assert_eq!(person(&place, "ben")["public_key"].as_str().unwrap(), fs::read_to_string(place.path("ben.pub")).unwrap());
        assert!(!key_of(&place, "ben").exists());
    }
}

#[test]
fn groups_are_set_as_a_whole_and_a_retired_person_stays_retired() {
    for place in Place::each() {
        place.folder("nobody-home");
        assert_eq!(add(&place, &["anna", "--group", "security"]).status, 0);
        let set = place.ringfence(&["person", "set", "anna", "--group", "data"]);
        assert_eq!((set.status, set.stdout.as_str()), (0, "person `anna`: data\n"), "{set:?}");
        assert_eq!(place.ringfence(&["person", "set", "anna", "--no-groups"]).stdout, "person `anna`: no groups\n");
        assert_refused(&place.ringfence(&["person", "set", "anna"]), "required arguments were not provided");
        assert_refused(&place.ringfence(&["person", "set", "ben", "--no-groups"]), "person `ben` is not registered");
        for _ in 0..2 {
            assert_eq!(place.ringfence(&["person", "retire", "anna"]).stdout, "person `anna` is inactive\n");
        }
        assert!(person(&place, "anna")["retired_at"].is_string());
        assert_refused(&place.ringfence(&["person", "set", "anna", "--no-groups"]), "person `anna` is retired");
        assert_refused(&add(&place, &["anna"]), "person `anna` is retired");
        assert_refused(&add(&place, &["ben", "--identity", "ANNA"]), "is that of person `anna` already");
    }
}

#[test]
fn the_login_user_is_known_from_first_use_and_gets_a_key_when_asked() {
    for place in Place::each() {
        place.folder("nobody-home");
        let all = listed(&place);
        let login = all[0].clone();
        assert_eq!((all.as_array().unwrap().len(), &login["groups"], &login["public_key"]), (1, &serde_json::json!([]), &Value::Null));
        let name = login["name"].as_str().unwrap();
        assert_eq!(add(&place, &[name, "--group", "security"]).status, 0);
        let with_key = person(&place, name);
        assert_eq!((&with_key["added_at"], &with_key["identity"]), (&login["added_at"], &login["identity"]));
        assert!(with_key["public_key"].is_string() && with_key["groups"][0] == "security" && key_of(&place, name).exists());
        assert_refused(&add(&place, &[name]), "is registered already");
        assert_refused(&place.ringfence(&["person", "retire", name]), "answers for the local agent `me`");
    }
}

#[test]
fn names_that_a_path_or_a_terminal_would_obey_are_refused() {
    for place in Place::each() {
        place.folder("nobody-home");
        for bad in ["../anna", "a/b", ".anna", "Anna", "a b", "a\x1b[31mb", "a\u{202e}b", "", &"x".repeat(65)] {
            assert_refused(&add(&place, &[bad]), "is not the name of a person");
            assert_refused(&place.ringfence(&["person", "retire", bad]), "is not the name of a person");
        }
        assert_refused(&add(&place, &["anna", "--group", "a\x1b[1m"]), "is not the name of a group");
        assert_refused(&add(&place, &["anna", "--identity", "a\x1b[1m"]), "is not an identity");
        assert!(fs::read_dir(place.home().join("persons")).unwrap().next().is_none());
    }
}

#[test]
fn a_damaged_record_fails_closed_with_its_path() {
    for place in Place::each() {
        place.folder("nobody-home");
        assert_eq!(add(&place, &["anna"]).status, 0);
        let path = place.home().join("persons/anna.json");
        let whole = fs::read_to_string(&path).unwrap();
        let broken = [whole[..whole.len() / 2].to_owned(), whole.replacen('{', "{\"more\": 1,", 1), whole.replace("\"anna\"", "\"ben\"")];
        for text in broken {
            fs::write(&path, text).unwrap();
            for arguments in [vec!["person", "ls"], vec!["person", "retire", "anna"], vec!["person", "add", "ben"]] {
                assert_refused(&place.ringfence(&arguments), path.canonicalize().unwrap().to_str().unwrap());
            }
        }
        assert!(!key_of(&place, "ben").exists());
        fs::write(&path, whole).unwrap();
        assert_eq!(place.ringfence(&["person", "ls"]).status, 0);
    }
}

#[test]
fn twenty_at_once_are_all_registered_and_of_one_identity_one_is() {
    for place in Place::each() {
        place.folder("nobody-home");
        let all = |identity: fn(usize) -> String| {
            let start = |number: usize| {
                let mut command = place.command(binary());
                command.args(["person", "add", &format!("p{number}-{}", identity(number).len()), "--identity", &identity(number)]);
                command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
            };
            let children: Vec<_> = (0..20).map(start).collect();
            children.into_iter().map(|child| outcome(child.wait_with_output().unwrap())).collect::<Vec<_>>()
        };
        let each_their_own = all(|number| format!("person-{number:02}@example.com"));
        assert!(each_their_own.iter().all(|outcome| outcome.status == 0), "{each_their_own:?}");
        let one = all(|_| "same@example.com".to_owned());
        assert_eq!(one.iter().filter(|outcome| outcome.status == 0).count(), 1, "{one:?}");
        assert_eq!(fs::read_dir(place.home().join("persons")).unwrap().count(), 21);
        let keys = fs::read_dir(key_of(&place, "x").parent().unwrap()).unwrap().count();
        assert_eq!(keys, 21, "no key of nobody is left");
    }
}
