//! The time by which approvals expire. It goes on with the clock of this boot, which nobody can set, and is never earlier than it was: a wall clock
//! that is set back makes nothing young again. One that is set forward makes things expire early, and stays forward.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use sqlx::{Row, Sqlite, Transaction};

/// How much later it must be than what is remembered to be remembered anew, milliseconds.
const REMEMBERED_TO: i64 = 1000;

/// What the clocks of this machine say, milliseconds.
struct Moment {
    wall: i64,
    boot: String,
    running: i64,
}

impl Moment {
    fn now() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        let running = clock_gettime(ClockId::Boottime);
        // Where the kernel does not name the boot, every look counts as a boot of its own, and the wall clock alone says the time.
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        Self { wall: i64::try_from(wall).unwrap_or(i64::MAX), boot, running: running.tv_sec * 1000 + running.tv_nsec / 1_000_000 }
    }

    /// The time, given the latest that was seen before.
    fn after(&self, before: &Self) -> i64 {
        let is_same_boot = !self.boot.is_empty() && self.boot == before.boot;
        let passed = if is_same_boot { (self.running - before.running).max(0) } else { 0 };
        self.wall.max(before.wall.saturating_add(passed))
    }

    /// True if the time that follows from what is remembered is right for now.
    fn follows(&self, before: &Self, now: i64) -> bool {
        !self.boot.is_empty() && self.boot == before.boot && self.running >= before.running && now - before.wall < REMEMBERED_TO
    }
}

/// Looks at the clock and remembers what it said.
pub(super) async fn advance(transaction: &mut Transaction<'_, Sqlite>) -> Result<i64, sqlx::Error> {
    let moment = Moment::now();
    let row = sqlx::query("SELECT wall, boot, running FROM clock").fetch_optional(&mut **transaction).await?;
    let before = row.map(|row| Moment { wall: row.get("wall"), boot: row.get("boot"), running: row.get("running") });
    let now = before.as_ref().map_or(moment.wall, |before| moment.after(before));
    if before.is_some_and(|before| moment.follows(&before, now)) {
        return Ok(now);
    }
    sqlx::query("INSERT OR REPLACE INTO clock VALUES (1, ?, ?, ?)")
        .bind(now)
        .bind(&moment.boot)
        .bind(moment.running)
        .execute(&mut **transaction)
        .await?;
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(wall: i64, boot: &str, running: i64) -> Moment {
        Moment { wall, boot: boot.into(), running }
    }

    #[test]
    fn a_time_is_remembered_once_a_second_and_in_each_boot() {
        let before = moment(10_000, "a", 500);
        assert!(moment(10_900, "a", 1_400).follows(&before, 10_900));
        assert!(!moment(11_000, "a", 1_500).follows(&before, 11_000));
        assert!(!moment(90_000, "a", 501).follows(&before, 90_000), "set forward");
        assert!(!moment(10_100, "b", 501).follows(&before, 10_100), "another boot");
        assert!(!moment(10_100, "", 501).follows(&moment(10_000, "", 500), 10_100), "no boot that is named");
    }

    #[test]
    fn the_time_is_never_earlier_than_it_was() {
        let before = moment(10_000, "a", 500);
        assert_eq!(moment(10_700, "a", 1_200).after(&before), 10_700);
        assert_eq!(moment(3, "a", 1_500).after(&before), 11_000, "set back: the clock of the boot goes on");
        assert_eq!(moment(3, "b", 7).after(&before), 10_000, "set back while it was off");
        assert_eq!(moment(90_000, "a", 501).after(&before), 90_000, "set forward");
    }
}
