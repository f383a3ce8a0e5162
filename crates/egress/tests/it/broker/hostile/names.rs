//! Questions for names whose bytes two readers could see differently.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;

use crate::broker::names::question;
use crate::broker::rig::{PATIENCE, rules};

/// A question with these labels, whatever is in them.
fn of_labels(labels: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(*label);
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

#[test]
fn no_odd_byte_makes_a_name_that_is_known() {
    let rig = rules(&["https://good.example.com:443".into(), "https://*.wild.example.com:443".into()]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let known = |bytes: &[u8]| {
        socket.send_to(bytes, rig.names).unwrap();
        socket.send_to(&[&[0x56, 0x78], &question("good.example.com", 1)[2..]].concat(), rig.names).unwrap();
        let mut is_known = false;
        loop {
            let mut answer = [0; 2048];
            let length = socket.recv(&mut answer).unwrap();
            if answer[..2] == [0x56, 0x78] {
                return is_known;
            }
            is_known |= answer[..length].len() > 12 && answer[3] & 15 == 0;
        }
    };
    assert!(known(&of_labels(&[b"a", b"wild", b"example", b"com"])));
    for labels in [
        &[&b"good.example"[..], b"com"][..],
        &[b"good.example.com"],
        &[b"good\0", b"example", b"com"],
        &[b"good", b"example", b"com\0"],
        &[b"a.wild", b"example", b"com"],
        &[b"a\\", b"wild", b"example", b"com"],
        &[b"*", b"wild", b"example", b"com"],
        &[b"-", b"wild", b"example", b"com"],
        &[b" a", b"wild", b"example", b"com"],
        &[b"\xc3\xa4", b"wild", b"example", b"com"],
        &[b"\x1b[31m", b"wild", b"example", b"com"],
        &[b"a", b"wild", b"example", b"com", b"0"],
        &[],
    ] {
        assert!(!known(&of_labels(labels)), "{labels:?}");
    }
    let plain = question("good.example.com", 1);
    let with = |at: usize, byte: u8| [&plain[..at], &[byte], &plain[at + 1..]].concat();
    // A reply, another operation, two questions, none, a class that is not the internet's, a name that leads to itself.
    for bytes in [with(2, 0x81), with(2, 0x29), with(5, 2), with(5, 0), with(plain.len() - 1, 3), with(12, 0xc0)] {
        assert!(!known(&bytes), "{bytes:?}");
    }
    assert_eq!(rig.zone.look_ups.load(Ordering::SeqCst), 0);
    let told = super::super::rig::refused(&rig.events());
    assert!(told.iter().all(|refused| !refused.host.contains('\x1b') && !refused.reason.contains('\x1b')), "{told:?}");
}
