//! `ringfence run --explain`: the grant with the layer that decided each field, and the plan. Nothing runs.

use ringfence_control::{RunRequest, Runner};
use ringfence_policy::{Decision, Grant};
use serde::Serialize;

use super::out::{self, Failure, REFUSED, complain};

#[derive(Serialize)]
struct ExplainedJson<'a> {
    grant: &'a Grant,
    image: &'a str,
    plan: &'a ringfence_isolation::Plan,
}

pub(crate) fn run(runner: &Runner, request: &RunRequest, is_json: bool) -> Result<u8, Failure> {
    let explained = match runner.explain(request).map_err(|e| Failure::hinted(&e, e.hint()))? {
        Ok(explained) => explained,
        Err(refusal) => {
            complain(&format!("ringfence: {refusal}\nhint: {}", refusal.hint));
            return Ok(REFUSED);
        }
    };
    if is_json {
        out::print_json(&ExplainedJson { grant: &explained.grant, image: &explained.image, plan: &explained.plan })?;
        return Ok(0);
    }
    let rows = explained.grant.decisions.iter().map(row).collect();
    let mut text = out::table(&["capability", "granted", "decided by"], rows);
    text.push_str(&format!("\nimage: {}\n\nsteps inside the sandbox:\n", explained.image));
    for (number, step) in explained.plan.steps.iter().enumerate() {
        text.push_str(&format!("{:4}  {step}\n", number + 1));
    }
    text.push_str("\npaths (beneath the mounts, by Landlock):\n");
    for rule in &explained.plan.path_rules {
        text.push_str(&format!("      {:12} {:?}\n", rule.path, rule.access));
    }
    text.push_str(&format!("\nlimits of each process: {:?}\n", explained.plan.process_limits));
    text.push_str(&format!("limits of the tree: {:?}, memory held: {}\n", explained.plan.group_limits, explained.host.memory_grade()));
    text.push_str(&format!("system call filter: {:?}\n", explained.plan.filter));
    out::print(&text)?;
    Ok(0)
}

fn row(decision: &Decision) -> Vec<String> {
    let layers: Vec<String> = decision.layers.iter().map(ToString::to_string).collect();
    vec![decision.field.clone(), decision.value.clone(), layers.join(" and ")]
}
