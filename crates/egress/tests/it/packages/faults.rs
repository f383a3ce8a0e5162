//! Upstreams that are slow, endless, gone or wrong, and a record that is full.

use std::time::Duration;

use ringfence_egress::packages::{Operator, Upstreams};

use super::rig::{OPEN, Rig, has};
use super::shelf::Shelf;
use super::upstream::Reply;

const WHEEL: &str = "/python/files/thing/thing-1.0-py3-none-any.whl";
const UPSTREAM_WHEEL: &str = "/files/thing-1.0-py3-none-any.whl";

fn thing() -> Shelf {
    let shelf = Shelf::new();
    shelf.wheel("thing", "1.0", &[]);
    shelf
}

#[test]
fn pk_14_a_slow_or_endless_file_is_stopped_at_its_limits() {
    for (reply, why) in [(Reply::Slow, "took longer than 1 s"), (Reply::Endless, "is larger than 1048576 bytes")] {
        let shelf = thing();
        shelf.upstream.say(UPSTREAM_WHEEL, reply);
        let rig = Rig::with(&shelf, OPEN, Default::default(), |setup| {
            setup.limits.file = Duration::from_secs(1);
            setup.limits.file_bytes = 1 << 20;
        });
        let said = rig.get(WHEEL);
        assert!(said.status == 403 && said.text().contains(why) && said.text().contains("(rule: size and time)"), "{}", said.text());
        assert_eq!(rig.refused(), ["thing 1.0 thing-1.0-py3-none-any.whl: size and time"]);
        assert_eq!(rig.folder.path().join("cache/drafts").read_dir().unwrap().count(), 0);
    }
}

#[test]
fn pk_14_a_slow_or_endless_page_is_stopped_at_its_limits() {
    for (reply, why) in [(Reply::Slow, "took longer than 1 s"), (Reply::Endless, "is larger than 1048576 bytes")] {
        let shelf = thing();
        shelf.upstream.say("/simple/thing/", reply);
        let rig = Rig::with(&shelf, OPEN, Default::default(), |setup| {
            setup.limits.metadata = Duration::from_secs(1);
            setup.limits.metadata_bytes = 1 << 20;
        });
        let said = rig.get("/python/simple/thing/");
        assert!(said.status == 502 && said.text().contains(why), "{}", said.text());
    }
}

#[test]
fn what_was_kept_is_served_while_the_index_is_down() {
    let shelf = thing();
    let first = Rig::new(&shelf, OPEN);
    let bytes = first.get(WHEEL).body;
    shelf.upstream.set_down(true);
    let cache = first.folder.path().join("cache");
    let rig = Rig::with(&shelf, OPEN, Default::default(), |setup| {
        setup.cache = cache;
        setup.limits.fresh = Duration::ZERO;
    });
    assert_eq!(rig.get(WHEEL).body, bytes);
    let text = "ringfence: the index of python packages cannot be used: the index cannot be reached";
    let said = rig.get("/python/simple/other/");
    assert_eq!((said.status, said.text().trim()), (502, text));
    assert_eq!(rig.get("/node/other").status, 502);
    assert_eq!(rig.get("/rust/ot/he/other").status, 502);
    if has("pip") {
        rig.pip(&["thing"]).succeeds();
        rig.pip(&["other"]).fails_saying(text);
    }
}

#[test]
fn nobody_is_asked_where_the_operator_named_no_index() {
    let shelf = thing();
    let none = std::collections::BTreeMap::new();
    let rig = Rig::with(&shelf, OPEN, Default::default(), |setup| {
        setup.upstreams = Upstreams::read(&Operator { environment: &none, root: &setup.cache });
    });
    let said = rig.get("/python/simple/thing/");
    let wanted = "pip names no index of python packages; run `pip config set global.index-url URL`";
    assert!(said.status == 502 && said.text().contains(wanted), "{}", said.text());
    assert!(shelf.upstream.asked().is_empty());
}

#[test]
fn what_cannot_be_recorded_is_not_served() {
    let rig = Rig::new(&thing(), OPEN);
    rig.fill_record();
    let said = rig.get(WHEEL);
    assert_eq!((said.status, said.text().as_str()), (503, "ringfence: this cannot be recorded, so it is not served\n"));
}

#[test]
fn one_run_has_so_many_files_and_no_more() {
    let shelf = thing();
    shelf.wheel("other", "1.0", &[]);
    let rig = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.limits.files = 1);
    assert_eq!(rig.get(WHEEL).status, 200);
    let said = rig.get("/python/files/other/other-1.0-py3-none-any.whl");
    assert!(said.status == 403 && said.text().contains("one file too many for one run"), "{}", said.text());
}

#[test]
fn what_was_used_least_lately_makes_room() {
    let shelf = thing();
    shelf.wheel("other", "1.0", &[]);
    let other = "/python/files/other/other-1.0-py3-none-any.whl";
    let first = Rig::new(&shelf, OPEN);
    assert_eq!(first.get(WHEEL).status, 200);
    let cache = first.folder.path().join("cache");
    let second = Rig::with(&shelf, OPEN, Default::default(), |setup| {
        setup.cache = cache.clone();
        setup.limits.cache_bytes = 1500;
    });
    assert_eq!(second.get(other).status, 200);
    let third = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.cache = cache);
    assert_eq!((third.get(WHEEL).status, third.get(other).status), (200, 200));
    assert_eq!(third.told().iter().map(|event| event.is_from_cache).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn one_run_asks_for_so_much_and_no_more() {
    let shelf = thing();
    shelf.wheel("other", "1.0", &[]);
    let few = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.limits.questions = 1);
    assert_eq!(few.get(WHEEL).status, 200);
    assert!(few.get("/python/simple/other/").text().contains("more than one run may ask"));
    let small = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.limits.run_bytes = 700);
    let said = small.get(WHEEL);
    assert!(said.status == 403 && said.text().contains("(rule: size and time)"), "{}", said.text());
}

#[test]
fn an_index_may_move_a_file_a_few_times_and_credentials_stay_with_the_index() {
    let (shelf, elsewhere) = (thing(), Shelf::new());
    let bytes = elsewhere.wheel("thing", "1.0", &[]);
    shelf.upstream.say(UPSTREAM_WHEEL, Reply::Redirect(elsewhere.upstream.url(UPSTREAM_WHEEL)));
    let rig = Rig::new(&shelf, OPEN);
    assert_eq!(rig.get(WHEEL).body, bytes);
    assert!(elsewhere.upstream.asked().iter().all(|asked| asked.authorization.is_none()));
    shelf.upstream.say(UPSTREAM_WHEEL, Reply::Redirect(shelf.upstream.url(UPSTREAM_WHEEL)));
    assert_eq!(Rig::new(&shelf, OPEN).get(WHEEL).status, 502);
    assert!(shelf.upstream.asked().len() < 20);
}

#[test]
fn requests_that_are_none_are_answered_shortly() {
    let rig = Rig::new(&thing(), OPEN);
    assert_eq!(rig.request("POST /python/simple/thing/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").status, 405);
    assert_eq!(rig.get("/elsewhere").status, 404);
    assert_eq!(rig.get("/python/simple/%00/").status, 404);
    assert_eq!(rig.get("/python/simple/%C3%A4/").status, 404);
    assert_eq!(rig.get("/rust/%C3%A4%C3%A4/x/%C3%A4%C3%A4").status, 404);
    let long = format!("GET /python/simple/thing/ HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "x".repeat(100 << 10));
    assert_eq!(rig.request(&long).status, 431);
}
