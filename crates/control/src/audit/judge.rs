//! Holds what was measured against what was declared. Pure: everything it needs to know is in the case.

mod declared;
mod effects;
mod files;
mod installs;
mod limits;
mod network;
mod production;
mod secrets;
mod survival;
mod ways;

use ringfence_evidence::RunEnd;

use super::aftermath::Aftermath;
use super::answer::Answer;
use super::bait::Names;
use super::facts::Facts;
use super::limits::LimitMeasured;
use super::probing::Measured;
use crate::promotion::Rehearsal;
use crate::request::Secret;
pub(crate) use declared::{Declared, files};

/// Everything that is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) declared: &'a Declared,
    /// What the probe saw when it looked at everything.
    pub(crate) looked: &'a Facts,
    /// The run in which it changed things and left things behind.
    pub(crate) left: &'a Measured,
    pub(crate) after: &'a Aftermath,
    /// How a run ended that asked for a project where the profile has none.
    pub(crate) unasked_project: Option<&'a RunEnd>,
    /// What each target would take of that run.
    pub(crate) rehearsals: &'a [Rehearsal],
    pub(crate) limits: &'a [LimitMeasured],
    pub(crate) names: &'a Names,
    pub(crate) secrets: &'a [Secret],
}

/// The eight answers.
pub(crate) fn answers(case: &Case<'_>) -> Vec<Answer> {
    let questions = [
        ("What file system can the code see?", files::items(case)),
        ("What destinations can it reach?", [network::items(case), ways::items(case)].concat()),
        ("What variables and secrets exist in the process?", secrets::items(case)),
        ("Are installs unrestricted?", installs::items(case)),
        ("What limits hold?", limits::items(case)),
        ("What survives the end?", survival::items(case)),
        ("Can it reach production directly, or must it cross a governed tool?", production::items(case)),
        ("Which action turns an artifact into a real effect, and who authorises it?", effects::items(case)),
    ];
    (1..).zip(questions).map(|(number, (question, items))| Answer { number, question: question.into(), items }).collect()
}

/// True if a path is one of some folders or below one.
fn is_below(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ringfence_isolation::Fact;
    use ringfence_policy::{Profile, shipped};

    use super::super::attempts::{
        self, ADDRESSES, ANYWHERE, DESCRIPTORS, INIT_VARIABLES, INTERFACES, KEPT, KEYRING, LISTENING, METADATA, MOUNTS, PROCESSES,
        SEGMENTS, TOP, UNNAMED, VARIABLES, WALK,
    };
    use super::*;
    use crate::report::{ArtifactReport, RunReport};

    fn fact(tried: &str, errno: i32, found: &str) -> Fact {
        Fact { tried: tried.into(), errno, found: found.into() }
    }

    /// What the probe says in a sandbox that is as it should be.
    fn as_it_should_be(tried: &str, home: &str) -> Fact {
        match tried {
            TOP => fact(tried, 0, "usr"),
            MOUNTS => fact(tried, 0, "30 29 0:5 / / ro,nosuid - overlay overlay ro"),
            WALK => fact(tried, 0, &format!("writable {home}\nwritable /tmp\nwritable /dev/shm\nsocket 111 /tmp/old")),
            VARIABLES => fact(tried, 0, &format!("HOME={home}\0")),
            DESCRIPTORS => fact(tried, 0, "0 /dev/null\n1 pipe:[1]\n2 pipe:[2]"),
            PROCESSES => fact(tried, 0, "1\n7\nself"),
            INTERFACES => fact(tried, 0, "face |bytes\n    lo: 0 0"),
            SEGMENTS => fact(tried, 0, "key shmid"),
            ADDRESSES => fact(tried, 0, "|-- 127.0.0.1\n /32 host LOCAL\n|-- 127.255.255.255\n /32 link BROADCAST"),
            listening if LISTENING.contains(&listening) => fact(tried, 0, "sl local_address rem_address st"),
            asking if ["http=", "socks=", "name="].iter().any(|verb| asking.starts_with(verb)) => fact(tried, 111, ""),
            METADATA | ANYWHERE => fact(tried, 101, ""),
            "read=/inputs/bait/notes.txt" => fact(tried, 0, ""),
            other if ["run=", "append=", "remove=", "leave-"].iter().any(|verb| other.starts_with(verb)) => fact(tried, 0, ""),
            other => fact(other, 2, ""),
        }
    }

    fn artifact(path: &str) -> ArtifactReport {
        ArtifactReport { path: path.into(), bytes: 1, sha256: String::new(), is_executable: false, name: path.into() }
    }

    /// The differences of a case in which some facts are other ones.
    fn differences(changed: &[Fact], change: impl Fn(&mut Aftermath, &mut Measured, &mut Vec<LimitMeasured>)) -> Vec<String> {
        differences_beside(&[], changed, change)
    }

    /// The same where there are targets.
    fn differences_beside(
        rehearsals: &[Rehearsal],
        changed: &[Fact],
        change: impl Fn(&mut Aftermath, &mut Measured, &mut Vec<LimitMeasured>),
    ) -> Vec<String> {
        differences_at("/workspace", rehearsals, changed, change)
    }

    /// The same where the sandbox's user works in another folder.
    fn differences_at(
        home: &str,
        rehearsals: &[Rehearsal],
        changed: &[Fact],
        change: impl Fn(&mut Aftermath, &mut Measured, &mut Vec<LimitMeasured>),
    ) -> Vec<String> {
        let text = shipped().iter().find(|s| s.name == "data-analysis").unwrap().text;
        let capabilities = Profile::parse("p", text).unwrap().bound;
        let names = Names { mark: "mark".into(), token: "the-token".into(), folder: "/bait".into(), service: "127.0.0.1:9".into() };
        let said =
            |tried: String| changed.iter().find(|fact| fact.tried == tried.as_bytes()).cloned().unwrap_or(as_it_should_be(&tried, home));
        let looked = Facts(attempts::look(&names, &capabilities, &[], home).into_iter().map(said).collect());
        let facts = Facts(attempts::leave(&names, &capabilities, home).into_iter().map(said).collect());
        let patch = Some("--- a/gone.txt\n+++ b/notes.txt\n".to_owned());
        let mut left = Measured { report: RunReport::begin("r", "me", "p"), facts, patch };
        left.report.artifacts = vec![artifact(KEPT)];
        let measured = |(key, lowered)| LimitMeasured { key, met: "held".into(), lowered, is_held: Some(true) };
        let mut limits: Vec<LimitMeasured> = capabilities.limits.iter().map(measured).collect();
        let mut after = Aftermath::default();
        change(&mut after, &mut left, &mut limits);
        let declared = Declared {
            capabilities,
            image: "host, sha256:1".into(),
            grades: BTreeMap::new(),
            top: ["usr".to_owned()].into(),
            home: home.into(),
            mounts: ["/".to_owned()].into(),
            environment: vec![("HOME".into(), home.into())],
            files: Vec::new(),
            doors: Default::default(),
            addresses: vec![("127.0.0.1".parse().unwrap(), 8)],
        };
        let case = Case {
            declared: &declared,
            looked: &looked,
            left: &left,
            after: &after,
            unasked_project: None,
            rehearsals,
            limits: &limits,
            names: &names,
            secrets: &[Secret::new("a-secret".into())],
        };
        let of = |answer: Answer| {
            let items = answer.items.into_iter().filter(|item| !item.is_as_declared);
            items.map(move |item| format!("{} {}", answer.number, item.capability)).collect::<Vec<_>>()
        };
        answers(&case).into_iter().flat_map(of).collect()
    }

    #[test]
    fn what_is_as_declared_is_no_difference() {
        assert_eq!(differences(&[], |_, _, _| {}), [""; 0]);
    }

    #[test]
    fn the_workspace_is_where_the_user_of_the_profile_works() {
        let at = |changed: &[Fact]| differences_at("/home/user", &[], changed, |_, _, _| {});
        assert_eq!(at(&[]), [""; 0]);
        let elsewhere = "writable /workspace\nwritable /tmp\nwritable /dev/shm";
        assert_eq!(at(&[fact(WALK, 0, elsewhere)]), ["1 can write"]);
        assert_eq!(at(&[fact(WALK, 0, &format!("{elsewhere}\nwritable /home/user"))]), ["1 can write"]);
        assert_eq!(at(&[fact("run=/home/user", 13, "")]), ["1 can execute what it wrote"]);
        assert_eq!(at(&[fact("read=/home/user/.env", 0, "")]), ["1 secrets in a project"]);
    }

    #[test]
    fn each_fact_that_is_not_as_declared_is_a_difference_of_its_answer() {
        for (tried, errno, found, wanted) in [
            (TOP, 0, "usr\nhost", "1 folders of /"),
            (TOP, 13, "", "1 folders of /"),
            (MOUNTS, 0, "30 29 0:5 / /host rw - ext4 x rw", "1 mounts"),
            (WALK, 0, "writable /workspace\nwritable /tmp\nwritable /dev/shm\nwritable /tmpfile", "1 can write"),
            (WALK, 0, "writable /workspace\nwritable /tmp", "1 can write"),
            (WALK, 0, "writable /workspace\nwritable /tmp\nwritable /dev/shm\nmore", "1 can write"),
            (WALK, 0, "writable /workspace\nwritable /tmp\nwritable /dev/shm\nsocket 0 /run/x.sock", "2 sockets of the host"),
            ("run=/tmp", 13, "", "1 can execute what it wrote"),
            ("read=/bait/secret.txt", 0, "", "1 files of the host"),
            ("read=/etc/shadow", 0, "", "1 files of the host"),
            ("write=/inputs/bait", 0, "", "1 an input"),
            ("read=/inputs/bait/.env", 0, "", "1 secrets in an input"),
            ("read=/workspace/.env", 0, "", "1 secrets in a project"),
            (INTERFACES, 0, "lo: 0\neth0: 0", "2 interfaces"),
            (METADATA, 110, "", "2 destinations"),
            (ANYWHERE, 111, "", "7 direct ways"),
            ("tcp=127.0.0.1:9", 0, "", "2 destinations"),
            ("abstract=mark", 0, "", "2 sockets of the host"),
            ("unix=/bait/host.sock", 0, "", "7 governed tools"),
            ("socket=raw", 0, "", "2 sockets of kind raw, packet, vsock, netlink-audit, netlink-netfilter"),
            (VARIABLES, 0, "HOME=/workspace\0MORE=1\0", "3 variables"),
            (VARIABLES, 0, "HOME=/root\0", "3 variables"),
            (VARIABLES, 0, "HOME=/workspace\0X=a-secret\0", "3 secrets"),
            (SEGMENTS, 0, "the-token", "3 secrets"),
            (DESCRIPTORS, 0, "0 a\n1 b\n2 c\n7 /bait/secret.txt", "3 descriptors"),
            (INIT_VARIABLES, 0, "A=1\0", "3 variables of init"),
            (KEYRING, 0, "77", "3 the caller's keyring"),
            (PROCESSES, 0, "1\n7\n8", "3 processes"),
            ("write=/usr/local/lib", 0, "", "4 folders of the system that can be written"),
            (ANYWHERE, 0, "", "4 routes past the index"),
            (LISTENING[0], 0, "sl\n0: 0100007F:0C38 00000000:0000 0A", "2 listening"),
            (LISTENING[2], 0, "sl\n0: 00000000000000000000000000000000:0C38 0:0 0A", "2 listening"),
            (LISTENING[1], 13, "", "2 listening"),
            (ADDRESSES, 0, "|-- 10.0.0.1\n /32 host LOCAL", "2 its own addresses"),
            ("http=127.0.0.1:3128 CONNECT mark.invalid:443", 0, "HTTP/1.1 403 Forbidden", "2 proxy and name server"),
            ("http=127.0.0.1:3128 CONNECT 127.0.0.1:9", 0, "HTTP/1.1 200 OK", "2 destinations"),
            ("http=127.0.0.1:3128 GET http://127.0.0.1:9/", 0, "HTTP/1.1 502 Bad Gateway", "7 direct ways"),
            ("socks=169.254.169.254:80", 0, "0", "8 effects by the run itself"),
            ("name=mark.invalid", 0, "0 192.0.2.7", "2 proxy and name server"),
            ("http=127.0.0.1:3129 GET /", 0, "HTTP/1.1 404 Not Found", "4 package index"),
            ("read=/tmp/mark", 0, "", "6 files in /tmp and /dev/shm"),
            ("append=/dev/shm/mark", 13, "", "6 files in /tmp and /dev/shm"),
            ("leave-process=mark", 11, "", "6 processes"),
        ] {
            let found = differences(&[fact(tried, errno, found)], |_, _, _| {});
            assert!(found.iter().any(|difference| difference == wanted), "{tried} {errno}: {wanted}: {found:?}");
        }
    }

    #[test]
    fn a_target_that_would_take_something_else_is_a_difference() {
        use ringfence_policy::{ArtifactKind, parse_settings};
        let text = "[targets.reports]\nkind = \"directory\"\nfolder = \"/srv/reports\"\n";
        let target = parse_settings("s", text).unwrap().targets.into_values().next().unwrap();
        let kinds = vec![ArtifactKind::Report, ArtifactKind::Image, ArtifactKind::Notebook, ArtifactKind::DataSet];
        let as_declared = Rehearsal { target, kinds, holds: Ok("folder /srv/reports".into()) };
        let found = |rehearsal: &Rehearsal| differences_beside(std::slice::from_ref(rehearsal), &[], |_, _, _| {});
        assert_eq!(found(&as_declared), [""; 0]);
        assert_eq!(found(&Rehearsal { kinds: vec![ArtifactKind::Patch], ..as_declared.clone() }), ["8 promotion to reports"]);
        assert_eq!(found(&Rehearsal { holds: Err("gone".into()), ..as_declared }), ["8 promotion to reports"]);
    }

    #[test]
    fn what_the_host_finds_afterwards_and_limits_that_do_not_hold_are_differences() {
        let left = differences(&[], |after, _, _| after.cgroups.push("/sys/fs/cgroup/x".into()));
        assert_eq!(left, ["6 cgroups"]);
        let written = differences(&[], |after, _, _| after.project.push("notes.txt".into()));
        assert_eq!(written, ["8 the project on the host"]);
        let stayed = differences(&[], |_, left, _| left.report.artifacts.clear());
        assert_eq!(stayed, ["8 leaves the sandbox"]);
        let more = differences(&[], |_, left, _| left.report.artifacts.push(artifact(UNNAMED)));
        assert_eq!(more, ["8 leaves the sandbox"]);
        let lost = differences(&[], |_, left, _| left.patch = None);
        assert_eq!(lost, ["8 changes to the project"]);
        let exceeded = differences(&[], |_, _, limits| limits[0].is_held = Some(false));
        assert_eq!(exceeded, ["5 wall"]);
        let unmeasured = differences(&[], |_, _, limits| limits.truncate(9));
        assert_eq!(unmeasured, ["5 artifact-bytes"]);
    }
}
