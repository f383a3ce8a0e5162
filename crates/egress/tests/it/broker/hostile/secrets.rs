//! A host that gives a credential back wherever a reply has room for it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::broker::secrets::{BINDING, Intercepted, PLACEHOLDER, SECRET, answering};

/// The answer to a request with the credential, and what the host replied.
fn answer_to(reply: impl Fn() -> String + Send + Sync + 'static, line: &str, fields: &str) -> String {
    let (server, outside) = answering("api.example.com", move |_| reply());
    let inner = Intercepted::new(&server, outside, "", &[&BINDING.replace("=GET", "=GET,HEAD")]);
    let answer = inner.ask(line, &format!("Authorization: Bearer {PLACEHOLDER}\r\n{fields}"));
    assert!(server.heard().iter().all(|heard| heard.contains(SECRET)) && !server.heard().is_empty(), "{:?}", server.heard());
    assert!(!format!("{:?}", inner.rig.events()).contains(SECRET));
    answer
}

fn body(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

#[test]
fn the_phrase_beside_the_status_is_no_way_out() {
    let answer = answer_to(|| format!("HTTP/1.1 200 you sent {SECRET}\r\nContent-Length: 2\r\n\r\nok"), "GET /v1", "");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok") && !answer.contains(SECRET), "{answer}");
}

#[test]
fn the_name_of_a_field_is_no_way_out() {
    let fields = || format!("{SECRET}: 1\r\nX-{}-X: 2\r\nX-Kept: {SECRET}", SECRET.to_uppercase());
    let answer = answer_to(move || format!("HTTP/1.1 200 OK\r\n{}\r\nContent-Length: 2\r\n\r\nok", fields()), "GET /v1", "");
    assert!(answer.contains(&format!("x-kept: {PLACEHOLDER}")) && !answer.to_lowercase().contains(SECRET), "{answer}");
}

#[test]
fn trailers_early_replies_and_sizes_of_pieces_are_no_way_out() {
    let reply = || {
        format!(
            "HTTP/1.1 103 {SECRET}\r\nLink: <{SECRET}>\r\n\r\nHTTP/1.1 100 Continue\r\nX: {SECRET}\r\n\r\n\
             HTTP/1.1 200 OK\r\nTrailer: X-Last\r\nTransfer-Encoding: chunked\r\n\r\n2;x={SECRET}\r\nok\r\n0\r\nX-Last: {SECRET}\r\n\r\n"
        )
    };
    let answer = answer_to(reply, "GET /v1", "TE: trailers\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok") && !answer.contains(SECRET), "{answer}");
}

#[test]
fn replies_without_a_body_are_no_way_out() {
    let fields =
        || format!("Location: https://x.test/{SECRET}\r\nContent-Location: {SECRET}\r\nETag: \"{SECRET}\"\r\nSet-Cookie: a={SECRET}");
    for status in ["204 No Content", "304 Not Modified", "302 Found"] {
        let answer = answer_to(move || format!("HTTP/1.1 {status}\r\n{}\r\nContent-Length: 0\r\n\r\n", fields()), "GET /v1", "");
        assert!(answer.matches(PLACEHOLDER).count() == 4 && !answer.contains(SECRET), "{answer}");
    }
    // What follows the head of such a reply is no body, and nobody's.
    let answer = answer_to(|| format!("HTTP/1.1 204 No Content\r\n\r\n{SECRET}"), "GET /v1", "");
    assert!(answer.starts_with("HTTP/1.1 204 ") && !answer.contains(SECRET), "{answer}");
}

#[test]
fn an_echo_is_known_in_other_forms() {
    let wide: String = SECRET.chars().flat_map(|char| [char, '\0']).collect();
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    for form in [
        STANDARD.encode(format!("me:{SECRET}")),
        STANDARD.encode(format!("a{SECRET}b")),
        URL_SAFE_NO_PAD.encode(format!("Bearer {SECRET}")),
        SECRET.to_uppercase(),
        hex,
        wide,
        format!("...{}...", &SECRET[..SECRET.len() - 5]),
        SECRET[..SECRET.len() / 2].into(),
    ] {
        let text = form.clone();
        let answer = answer_to(move || body(&format!("before {text} after")), "GET /v1", "");
        assert!(answer.contains(PLACEHOLDER) && answer.contains("before ") && answer.ends_with(" after"), "{form}: {answer}");
        assert!(!answer.contains(&form), "{form}: {answer}");
    }
}

/// A host that stops in the middle has said as much as one that goes on.
#[test]
fn an_echo_that_is_cut_by_the_end_is_taken_out() {
    let answer = answer_to(|| body(&SECRET[..SECRET.len() - 1]), "GET /v1", "");
    assert!(answer.ends_with(PLACEHOLDER), "{answer}");
}

/// What cannot be looked through does not pass, however the host hides that it is so.
#[test]
fn a_reply_that_hides_how_it_is_encoded_does_not_pass() {
    for fields in [
        "Connection: Content-Encoding\r\nContent-Encoding: gzip\r\nContent-Length: 2",
        "Content-Encoding: identity\r\nContent-Encoding: br\r\nContent-Length: 2",
        "Content-Encoding: identity, gzip\r\nContent-Length: 2",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip",
    ] {
        let answer = answer_to(move || format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok"), "GET /v1", "");
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("ringfence: the reply "), "{fields}: {answer}");
    }
}

#[test]
fn a_reply_to_head_names_no_value_and_keeps_its_length() {
    let answer = answer_to(|| format!("HTTP/1.1 200 OK\r\nX-Echo: {SECRET}\r\nContent-Length: 77\r\n\r\n"), "HEAD /v1", "");
    assert!(answer.contains("content-length: 77\r\n") && answer.contains(PLACEHOLDER) && !answer.contains(SECRET), "{answer}");
}
