//! `examples/fix`, as the README names it.

use std::path::Path;

use crate::support::{Place, binary, outcome};

#[test]
fn the_example_goes_from_a_failing_test_to_the_branch() {
    for place in Place::each() {
        // Where any user can read it, whatever the permissions of the checkout.
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fix");
        for name in ["run.sh", "fix.py", "app/invoice.py", "app/README.md", "app/tests/test_invoice.py"] {
            place.write(&format!("fix/{name}"), std::fs::read(example.join(name)).unwrap());
        }
        let mut command = place.command("bash");
        command.arg(place.path("fix/run.sh")).arg(place.path("work")).env("RINGFENCE", binary()).env_remove("RINGFENCE_HOME");
        let done = outcome(command.output().unwrap());
        assert_eq!(done.status, 0, "{done:?}");
        for said in ["there is nothing to mend", "Traceback"] {
            assert!(!done.stdout.contains(said) && !done.stderr.contains(said), "{done:?}");
        }
        assert_eq!(done.stdout.matches("the record is intact: applied").count(), 2, "{done:?}");
        assert!(done.stdout.contains("the branch's tree is the tested one"), "{done:?}");
    }
}
