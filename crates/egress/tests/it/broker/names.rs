//! Names: resolved once, outside, every address checked; and questions for them inside.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::Ordering;

use super::rig::{PATIENCE, Rig, Server, opened, refused, reply, rules};

/// SBX-116.
#[test]
fn a_name_is_resolved_once_and_what_was_checked_is_dialled() {
    let checked = Server::at(Ipv4Addr::new(127, 0, 0, 2), |mut stream, _| {
        super::rig::read_request(&mut stream);
        std::io::Write::write_all(&mut stream, reply("checked").as_bytes()).unwrap();
    });
    let rule = format!("http://rebind.test:{}", checked.port);
    let rig = rules(std::slice::from_ref(&rule));
    rig.leads("rebind.test", &[&["127.0.0.2"], &["127.0.0.1"]]);
    assert!(rig.get(&format!("{rule}/")).ends_with("checked"));
    assert_eq!(rig.zone.look_ups.load(Ordering::SeqCst), 1);
    assert_eq!(opened(&rig.events())[0].address.ip().to_string(), "127.0.0.2");
}

#[test]
fn no_name_leads_to_an_address_that_is_not_the_internets() {
    let bait = Server::web(reply("bait"));
    let rule = format!("http://name.test:{}", bait.port);
    for addresses in [
        &["127.0.0.1"][..],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["10.0.0.1", "192.168.1.1"],
        &["169.254.169.254"],
        &["100.100.100.200"],
        &["fd00:ec2::254"],
        &["0.0.0.0"],
        &["198.18.0.2"],
    ] {
        let rig = Rig::new(super::rig::Parts { rules: vec![rule.clone()], private: Some(Vec::new()), ..Default::default() });
        rig.leads("name.test", &[addresses]);
        let answer = rig.get(&format!("{rule}/"));
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("no name may lead to"), "{addresses:?}: {answer}");
        let told = refused(&rig.events());
        assert!(told.len() == 1 && told[0].reason.contains("no name may lead to"), "{told:?}");
    }
    assert_eq!(bait.connections(), 0);
}

/// The first address may be one that nobody answers at: further ones are tried, and were all checked.
#[test]
fn of_several_addresses_only_those_that_were_checked_are_tried() {
    let server = Server::web(reply("hello"));
    let rule = format!("http://name.test:{}", server.port);
    let rig = rules(std::slice::from_ref(&rule));
    rig.leads("name.test", &[&["10.9.9.9", "127.0.0.9", "127.0.0.1"]]);
    assert!(rig.get(&format!("{rule}/")).ends_with("hello"));
    let events = rig.events();
    assert_eq!(opened(&events)[0].address.ip().to_string(), "127.0.0.9");
    let reached = events.iter().find_map(|event| match event {
        ringfence_egress::EgressEvent::Closed(closed) => closed.address,
        _ => None,
    });
    assert_eq!(reached.map(|address| address.ip().to_string()).as_deref(), Some("127.0.0.1"));
}

#[test]
fn a_name_that_does_not_resolve_is_a_failure_and_no_refusal_by_rule() {
    let rig = rules(&["http://gone.test:80".into()]);
    let answer = rig.get("http://gone.test/");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("cannot be resolved"), "{answer}");
}

/// A question as RFC 1035 has it.
pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, kind.to_be_bytes()[0], kind.to_be_bytes()[1], 0, 1]);
    bytes
}

#[test]
pub(crate) fn questions_are_answered_for_names_that_a_rule_is_about() {
    let rig = rules(&["https://good.example.com:443".into(), "https://*.wild.example.com:443".into()]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = |bytes: &[u8]| {
        socket.send_to(bytes, rig.names).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        let (code, answers) = (answer[3] & 15, answer[7]);
        (code, (answers > 0).then(|| answer[length - 4..length].to_vec()))
    };
    assert_eq!(ask(&question("good.example.com", 1)), (0, Some(vec![198, 18, 0, 2])));
    assert_eq!(ask(&question("GOOD.example.com", 1)), (0, Some(vec![198, 18, 0, 2])));
    assert_eq!(ask(&question("a.wild.example.com", 1)), (0, Some(vec![198, 18, 0, 3])));
    assert_eq!(ask(&question("good.example.com", 28)), (0, None)); // no IPv6, but there is the name
    for name in ["evil.test", "wild.example.com", "xwild.example.com", "secret.evil.test", "good.example.com.evil.test"] {
        assert_eq!(ask(&question(name, 1)), (3, None), "{name}");
    }
    // What is no question has no answer, and those after it have.
    socket.send_to(b"garbage", rig.names).unwrap();
    socket.send_to(&[0xff; 1400], rig.names).unwrap();
    assert_eq!(ask(&question("good.example.com", 1)).0, 0);
    assert_eq!(rig.zone.look_ups.load(Ordering::SeqCst), 0);
    assert_eq!(refused(&rig.events()).len(), 5);
}
