//! What an agent was granted, beside what it ever used: what is not used can be taken away.
//!
//! The last use moves only by a run on record that was not refused. Nobody has to be asked, and nobody can say that they used something.

use ringfence_policy::{AgentRecord, Date};
use ringfence_store::UsageRow;
use serde::Serialize;

/// A grant that was not used for so many days is stale.
const STALE_AFTER_DAYS: i64 = 30;

/// One profile, as granted and as used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileUsage {
    /// The profile.
    pub profile: String,
    /// Whether the agent may run it.
    pub is_granted: bool,
    /// How many runs there were.
    pub runs: u64,
    /// When the last one was requested.
    pub last_run_at: Option<String>,
    /// Whether it is granted and was never used, or not for 30 days.
    pub is_stale: bool,
}

/// Every profile that is granted or was used, by name.
pub(super) fn usage(record: &AgentRecord, used: &[UsageRow], today: Date) -> Vec<ProfileUsage> {
    let granted = record.profiles.named().map(|name| name.to_string());
    let mut names: Vec<String> = granted.chain(used.iter().map(|row| row.profile.clone())).collect();
    names.sort();
    names.dedup();
    let of = |profile: String| {
        let row = used.iter().find(|row| row.profile == profile);
        let is_granted = profile.parse().is_ok_and(|name| record.profiles.contains(&name));
        let last_run_at = row.map(|row| row.last_run_at.clone());
        let is_fresh = last_run_at.as_ref().is_some_and(|at| is_within(at, today));
        ProfileUsage { is_granted, runs: row.map_or(0, |row| row.runs), is_stale: is_granted && !is_fresh, last_run_at, profile }
    };
    names.into_iter().map(of).collect()
}

fn is_within(at: &str, today: Date) -> bool {
    let day = at.get(..10).and_then(|day| day.parse::<Date>().ok());
    day.is_some_and(|day| today.days_after(day) <= STALE_AFTER_DAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_stands_beside_what_was_used() {
        let text = "id = \"x\"\nname = \"x\"\npurpose = \"x\"\nowner = \"anna\"\nteam = \"x\"\nprofiles = [\"a\", \"b\", \"c\"]\nreview-by = \"2027-01-31\"\n";
        let record = AgentRecord::parse("x", text).unwrap();
        let row = |profile: &str, runs, day: &str| UsageRow { profile: profile.into(), runs, last_run_at: format!("{day}T10:00:00.000Z") };
        let used = [row("a", 3, "2026-05-31"), row("b", 1, "2026-05-30"), row("gone", 7, "2026-06-29")];
        let all = usage(&record, &used, "2026-06-30".parse().unwrap());
        let shown: Vec<_> = all.iter().map(|u| (u.profile.as_str(), u.is_granted, u.runs, u.is_stale)).collect();
        assert_eq!(shown, [("a", true, 3, false), ("b", true, 1, true), ("c", true, 0, true), ("gone", false, 7, false)]);
    }
}
