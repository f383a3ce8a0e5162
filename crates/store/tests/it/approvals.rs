//! Approvals that several processes decide on, use and let expire at the same moment: each ends once, is used at most once, and what is recorded is what
//! everybody was told. `RINGFENCE_APPROVAL_RACES` says how many races there are.

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use ringfence_store::{
    ApprovalRow, ApprovalState, Authority, Begun, Decided, DecisionRow, Home, NewApproval, NewDecision, NewPromotion, NewStanding,
    PromotionState, Started, Verdict,
};

/// What one of those who race does.
#[derive(Debug, Clone, Copy)]
enum Part {
    Approve(&'static str),
    Deny(&'static str),
    /// Uses it at once, twice.
    Use,
}

const PARTS: [Part; 6] = [Part::Approve("anna"), Part::Approve("ben"), Part::Deny("carl"), Part::Use, Part::Use, Part::Approve("anna")];

/// What one of them was told.
#[derive(Debug)]
enum Told {
    Said(Verdict, &'static str, Box<Decided>),
    Used(bool),
}

/// One race: an approval of a promotion, or one that stands alone.
#[derive(Debug, Clone)]
struct Race {
    id: String,
    is_alone: bool,
    quorum: u32,
    /// How long it can be decided, and then used, milliseconds; few enough that it ends in the middle of some races.
    decide_for: i64,
    execute_for: i64,
}

impl Race {
    fn number(number: u64) -> Self {
        let lasts = |few: u64| if number.is_multiple_of(few) { i64::try_from(number % 5).unwrap() } else { 60_000 };
        Self {
            id: format!("race{number}"),
            is_alone: number.is_multiple_of(3),
            quorum: 1 + u32::try_from(number % 2).unwrap(),
            decide_for: lasts(7),
            execute_for: lasts(11),
        }
    }

    fn approval(&self) -> String {
        format!("{}-approval", self.id)
    }

    fn ask(&self, authority: &mut Authority) {
        let asked = NewApproval {
            id: self.approval(),
            subject: self.id.clone(),
            request: format!("{{\"about\":\"{}\"}}", self.id),
            digest: format!("digest of {}", self.id),
            quorum: self.quorum,
            decide_by: authority.now().unwrap() + self.decide_for,
            execute_for: self.execute_for,
        };
        if self.is_alone {
            return authority.ask_alone(&asked).unwrap();
        }
        let (id, artifact) = (self.id.clone(), self.id.clone());
        let new = NewPromotion { id, artifact, target: "main".into(), place: String::new(), undoes: None, request: "{}".into() };
        assert!(matches!(authority.begin(&new, false).unwrap(), Begun::New(_)));
        assert!(authority.ask(&self.id, "{}", &[asked]).unwrap());
    }

    fn play(&self, authority: &mut Authority, part: Part) -> Vec<Told> {
        match part {
            Part::Approve(person) => vec![self.say(authority, Verdict::Approve, person)],
            Part::Deny(person) => vec![self.say(authority, Verdict::Deny, person)],
            Part::Use => (0..2).map(|_| Told::Used(self.use_it(authority))).collect(),
        }
    }

    fn say(&self, authority: &mut Authority, verdict: Verdict, person: &'static str) -> Told {
        let decision = NewDecision {
            person: person.into(),
            key: format!("key of {person}"),
            verdict,
            digest: format!("digest of {}", self.id),
            envelope: format!("{person} says {verdict}"),
            standing: None,
        };
        Told::Said(verdict, person, Box::new(authority.decide(&self.approval(), &decision, &everybody).unwrap()))
    }

    fn use_it(&self, authority: &mut Authority) -> bool {
        match self.is_alone {
            true => authority.consume(&self.approval(), &everybody).unwrap(),
            false => authority.start(&self.id, &everybody).unwrap() == Started::Now,
        }
    }

    /// What everybody was told, what is recorded, and how it stands must be one story.
    fn judge(&self, authority: &mut Authority, told: &[Told]) -> ApprovalState {
        let row = authority.approval(&self.approval()).unwrap().unwrap();
        let what = format!("{self:?}\n{row:?}\n{told:?}");
        let uses = told.iter().filter(|told| matches!(told, Told::Used(true))).count();
        let mut said: Vec<(&str, Verdict)> = told.iter().filter_map(recorded).collect();
        let mut kept: Vec<(&str, Verdict)> = row.decisions.iter().map(|made| (made.person.as_str(), made.verdict)).collect();
        for list in [&mut said, &mut kept] {
            list.sort_by_key(|(person, verdict)| (*person, verdict.word()));
        }
        assert_eq!(said, kept, "who was told that it is recorded, and what is: {what}");
        let yes = kept.iter().filter(|(_, verdict)| *verdict == Verdict::Approve).count();
        let has_no = kept.len() > yes;
        let is_enough = yes >= self.quorum as usize;
        assert_eq!(uses, usize::from(row.state == ApprovalState::Consumed), "{what}");
        assert_eq!(has_no, row.state == ApprovalState::Denied, "{what}");
        match row.state {
            ApprovalState::Consumed | ApprovalState::Approved => assert!(is_enough && !has_no, "{what}"),
            ApprovalState::Pending => assert!(!is_enough, "{what}"),
            ApprovalState::Denied | ApprovalState::Expired => assert!(row.settled_at.is_some() && !row.cause.is_empty(), "{what}"),
            ApprovalState::Stale => panic!("{what}"),
        }
        if !self.is_alone {
            let state = authority.promotion(&self.id).unwrap().unwrap().state;
            let fits = match row.state {
                ApprovalState::Consumed => PromotionState::Applying,
                ApprovalState::Denied => PromotionState::Denied,
                ApprovalState::Expired => PromotionState::Expired,
                ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Stale => PromotionState::Waiting,
            };
            assert_eq!(state, fits, "{what}");
        }
        row.state
    }
}

fn recorded(told: &Told) -> Option<(&str, Verdict)> {
    match told {
        Told::Said(verdict, person, decided) => matches!(**decided, Decided::Recorded(_)).then_some((*person, *verdict)),
        Told::Used(_) => None,
    }
}

fn everybody(_: &ApprovalRow, _: &DecisionRow) -> bool {
    true
}

fn count(name: &str, few: u64) -> u64 {
    std::env::var(name).map_or(few, |text| text.parse().unwrap())
}

/// Where writing is quick, if there is such a place: what is tried is who comes first, not the disk.
fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    (folder, home)
}

/// Homes in which races go on beside each other: in each, most of the time is waiting for the lock.
const HOMES: u64 = 5;

#[test]
fn gw_11_a_thousand_races_of_yes_no_time_and_use_end_once_each() {
    let races = count("RINGFENCE_APPROVAL_RACES", 1000);
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    thread::scope(|scope| {
        let homes: Vec<_> = (0..HOMES).map(|home| scope.spawn(move || race_in_one_home((home..races).step_by(HOMES as usize)))).collect();
        for end in homes.into_iter().flat_map(|home| home.join().unwrap()) {
            *ends.entry(end.word()).or_insert(0) += 1;
        }
    });
    println!("{races} races: {ends:?}");
    assert_eq!(ends.values().sum::<u64>(), races);
    let each = ["consumed", "denied", "expired"];
    assert!(races < 100 || each.iter().all(|end| ends.contains_key(end)), "not every end came up: {ends:?}");
}

fn race_in_one_home(numbers: impl Iterator<Item = u64>) -> Vec<ApprovalState> {
    let (_folder, home) = home();
    let (start, end) = (Barrier::new(PARTS.len() + 1), Barrier::new(PARTS.len() + 1));
    let (now, told) = (Mutex::new(None::<Race>), Mutex::new(Vec::new()));
    let mut ends = Vec::new();
    thread::scope(|scope| {
        for (place, part) in PARTS.into_iter().enumerate() {
            let (home, start, end, now, told) = (&home, &start, &end, &now, &told);
            scope.spawn(move || {
                let mut authority = Authority::open(home).unwrap();
                for round in 0.. {
                    start.wait();
                    let Some(race) = now.lock().unwrap().clone() else { return };
                    // Whoever waits for a lock asks again in a rhythm; a little apart, each comes first in some races.
                    thread::sleep(Duration::from_micros((round * 37 + place as u64 * 211) % 700));
                    let mine = race.play(&mut authority, part);
                    told.lock().unwrap().extend(mine);
                    end.wait();
                }
            });
        }
        let mut authority = Authority::open(&home).unwrap();
        for race in numbers.map(Race::number) {
            race.ask(&mut authority);
            *now.lock().unwrap() = Some(race.clone());
            start.wait();
            end.wait();
            let heard = std::mem::take(&mut *told.lock().unwrap());
            ends.push(race.judge(&mut authority, &heard));
        }
        *now.lock().unwrap() = None;
        start.wait();
    });
    ends
}

/// Twenty processes that come first at the same time.
#[test]
fn twenty_at_once_make_one_store() {
    for _ in 0..5 {
        let (_folder, home) = home();
        let ready = Barrier::new(20);
        thread::scope(|scope| {
            for number in 0..20 {
                let (home, ready) = (&home, &ready);
                scope.spawn(move || {
                    ready.wait();
                    let mut authority = Authority::open(home).unwrap_or_else(|e| panic!("{e}"));
                    let new = NewPromotion {
                        id: format!("p{number}"),
                        artifact: "a".into(),
                        target: "t".into(),
                        place: String::new(),
                        undoes: None,
                        request: "{}".into(),
                    };
                    authority.begin(&new, false).unwrap();
                });
            }
        });
        assert_eq!(Authority::open(&home).unwrap().promotions(100).unwrap().len(), 1, "one is under way, for all of them");
    }
}

#[test]
fn a_standing_grant_is_used_as_often_as_it_says_and_no_more() {
    let (_folder, home) = home();
    let mut authority = Authority::open(&home).unwrap();
    let grant = NewStanding {
        id: "grant".into(),
        person: "anna".into(),
        key: "key of anna".into(),
        covers: "{}".into(),
        envelope: "ahead".into(),
        uses: 3,
        life: 60_000,
    };
    authority.give_standing(&grant).unwrap();
    let races: Vec<Race> = (0..20).map(|number| Race { decide_for: 60_000, execute_for: 60_000, ..Race::number(number) }).collect();
    races.iter().for_each(|race| race.ask(&mut authority));
    let ready = Barrier::new(races.len());
    let used: usize = thread::scope(|scope| {
        let threads: Vec<_> = races
            .iter()
            .map(|race| {
                let (home, ready) = (&home, &ready);
                scope.spawn(move || {
                    let mut authority = Authority::open(home).unwrap();
                    ready.wait();
                    let decision = NewDecision {
                        person: "anna".into(),
                        key: "key of anna".into(),
                        verdict: Verdict::Approve,
                        digest: format!("digest of {}", race.id),
                        envelope: "ahead".into(),
                        standing: Some("grant".into()),
                    };
                    let decided = authority.decide(&race.approval(), &decision, &everybody).unwrap();
                    usize::from(matches!(decided, Decided::Recorded(_)))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((used, authority.standing().unwrap()[0].uses), (3, 0));
}
