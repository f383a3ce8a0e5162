//! The tools that people use, through proxy variables and with none set.

use super::{FRIEND, Net, decisions, lines};
use crate::tools::{reachable, sites};

const RULES: &[&str] =
    &["https://good.example.com:443", "http://good.example.com:80", "https://*.wild.example.com:443", "tcp://friend.test:5432"];

/// Every tool says how it went in one line: what it got, or a word for a failure that came at once.
const TOOLS: &str = r#"
try() { timeout 10 "$@" 2>/dev/null | tail -1; case ${PIPESTATUS[0]} in 0) ;; 124) echo HANGS ;; *) echo fails ;; esac; }
export CA=/inputs/ca.pem SSL_CERT_FILE=/inputs/ca.pem NODE_EXTRA_CA_CERTS=/inputs/ca.pem GIT_SSL_CAINFO=/inputs/ca.pem
urllib='import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=9).read().decode(), end="")'
node='fetch(process.argv[1]).then(async r => console.log((await r.text()).trim()), () => process.exit(1))'
raw='import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 9); s.sendall(b"rf"); print(s.recv(64).decode())'
for url in $URLS; do
    echo "curl $url: $(try curl -sSf --cacert $CA $url)"
    echo "urllib $url: $(try python3 -c "$urllib" $url)"
    echo "node $url: $(try node -e "$node" $url)"
done
echo "raw friend: $(try python3 -c "$raw" friend.test 5432)"
echo "raw stranger: $(try python3 -c "$raw" stranger.test 5432)"
echo "raw address: $(try python3 -c "$raw" 93.184.216.99 5432)"
echo "raw metadata: $(try python3 -c "$raw" 169.254.169.254 5432)"
"#;

/// Without proxy variables names stand for addresses inside.
const BARE: &str = "unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NODE_USE_ENV_PROXY;";

fn urls(list: &[&str]) -> String {
    format!("URLS='{}';", list.join(" "))
}

fn outcome_of<'a>(lines: &[&'a str], name: &str) -> &'a str {
    let found = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    found.unwrap_or_else(|| panic!("{name} in {lines:?}"))
}

#[test]
fn allowed_hosts_are_reached_and_all_else_fails_at_once_with_and_without_proxy_variables() {
    let allowed = ["https://good.example.com/", "http://good.example.com/", "https://deep.wild.example.com/"];
    let refused =
        ["https://evil.test/", "http://evil.test/", "http://good.example.com:8080/", "https://cdn.example.com/", "https://93.184.216.34/"];
    for net in Net::each(RULES, "") {
        for before in ["", BARE] {
            let script = [before, &urls(&[&allowed[..], &refused].concat()), TOOLS].concat();
            let report = net.run(&[], &script);
            let lines = lines(&report);
            for tool in ["curl", "urllib", "node"] {
                for url in allowed {
                    // Node of Debian 12 knows no proxy variables: it goes to the address that stands for the name.
                    assert_eq!(outcome_of(&lines, &format!("{tool} {url}")), "FRIEND says hello", "{before} {lines:?}");
                }
                for url in refused {
                    assert_eq!(outcome_of(&lines, &format!("{tool} {url}")), "fails", "{before} {lines:?}");
                }
            }
            assert_eq!(outcome_of(&lines, "raw friend"), "RFNET FRIEND");
            for name in ["raw stranger", "raw address", "raw metadata"] {
                assert_eq!(outcome_of(&lines, name), "fails", "{lines:?}");
            }
            let decisions = decisions(&report);
            let way = if before.is_empty() { "connect" } else { "direct" };
            assert!(decisions.contains(&format!("allowed {way} good.example.com:443")), "{decisions:?}");
            assert!(decisions.contains(&"allowed direct friend.test:5432".to_owned()), "{decisions:?}");
            let wanted = if before.is_empty() { "refused connect evil.test:443" } else { "refused name evil.test" };
            assert!(decisions.contains(&wanted.to_owned()), "{decisions:?}");
        }
        assert!(net.heard().iter().all(|(at, _)| at == FRIEND), "{:?}", net.heard());
    }
}

/// The bait is there: without a fence everything is reached.
#[test]
fn outside_the_same_tools_reach_everything() {
    for net in Net::each(RULES, "") {
        let script =
            [&urls(&["https://good.example.com/", "http://evil.test/", "http://169.254.169.254/", "http://inner.example.com/"]), TOOLS]
                .concat()
                .replace("/inputs/ca.pem", "internet/ca.pem");
        let outcome = net.amid(&["/bin/bash", "-c", &script]);
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        for (url, word) in [
            ("https://good.example.com/", "FRIEND"),
            ("http://evil.test/", "STRANGER"),
            ("http://169.254.169.254/", "METADATA"),
            ("http://inner.example.com/", "PRIVATE"),
        ] {
            for tool in ["curl", "urllib", "node"] {
                assert_eq!(outcome_of(&lines, &format!("{tool} {url}")), format!("{word} says hello"), "{outcome:?}");
            }
        }
        assert_eq!(outcome_of(&lines, "raw stranger"), "RFNET-EVIL", "{outcome:?}");
        assert_eq!(outcome_of(&lines, "raw metadata"), "RFNET METADATA", "{outcome:?}");
    }
}

/// git over https, with its own idea of proxies and certificates.
#[test]
fn git_clones_from_an_allowed_host_and_from_no_other() {
    for net in Net::each(&["https://good.example.com:443 methods=GET,HEAD paths=/files"], "") {
        let made = net.place.bash(&[], "true"); // a first run makes the home
        assert_eq!(made.status, 0, "{made:?}");
        let make = "cd internet/www && git init -q -b main work && cd work && git config user.email a@b && git config user.name a && \
                    echo content > file && git add . && git commit -qm first && cd .. && git clone -q --bare work repo.git && \
                    cd repo.git && git update-server-info";
        let repository = std::process::Command::new("/bin/bash").args(["-c", make]).current_dir(net.place.path("")).output().unwrap();
        assert!(repository.status.success(), "{repository:?}");
        let script = "git clone -q https://good.example.com/files/repo.git cloned && cat cloned/file; \
                      git clone -q https://good.example.com/other/repo.git 2>&1 | grep -c 403; \
                      git clone -q https://evil.test/files/repo.git 2>&1 | grep -c 403";
        for before in ["", "unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY;"] {
            let report = net.run(&[], &[before, script].concat());
            let wanted = if before.is_empty() { vec!["content", "1", "1"] } else { vec!["content", "1", "0"] };
            assert_eq!(lines(&report), wanted, "{report}");
        }
    }
}

/// A library that has its own idea of proxies and of whom to trust.
#[test]
fn requests_of_python_reach_allowed_hosts_and_no_others() {
    for net in Net::each(&["https://good.example.com:443 methods=GET", "http://good.example.com:80"], "") {
        let site = reachable(&net.place, "python", &sites("requests"));
        let program = "import requests\nfor url in ('https://good.example.com/', 'http://good.example.com/', 'https://evil.test/', 'http://evil.test/'):\n\
            \x20try: print(requests.get(url, timeout=9).text.strip())\n\
            \x20except requests.RequestException as error: print(type(error).__name__)";
        let script = format!("PYTHONPATH=/inputs/python/site-packages python3 -c \"{program}\"");
        let report = net.run(&["--input", &site], &script);
        let refused = "ringfence: no rule allows http://evil.test:80";
        assert_eq!(lines(&report), ["FRIEND says hello", "FRIEND says hello", "ProxyError", refused], "{report}");
        let bare = "env -u http_proxy -u https_proxy -u all_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY";
        let report = net.run(&["--input", &site], &script.replace("python3 -c", &format!("{bare} python3 -c")));
        assert_eq!(lines(&report), ["FRIEND says hello", "FRIEND says hello", "ConnectionError", "ConnectionError"], "{report}");
    }
}

#[test]
fn methods_and_paths_are_held_and_what_was_asked_is_in_the_report() {
    for net in Net::each(&["https://api.example.com:443 methods=GET paths=/v1", "http://api.example.com:80 methods=POST"], "") {
        let script = "code() { curl -s -o /dev/null -w '%{http_code}\\n' \"$@\"; }
            code https://api.example.com/v1/a?token=secret; code https://api.example.com/v2; code -d x https://api.example.com/v1; \
            code --path-as-is https://api.example.com/v1/../v2; code -d x http://api.example.com/any; code http://api.example.com/any; \
            code -H 'Host: evil.test' https://api.example.com/v1";
        let report = net.run(&[], script);
        assert_eq!(lines(&report), ["200", "403", "403", "403", "200", "403", "403"], "{report}");
        let asked: Vec<&str> = report["network"].as_array().unwrap().iter().filter_map(|decision| decision["request"].as_str()).collect();
        assert_eq!(asked, ["GET /v1/a", "GET /v2", "POST /v1", "GET /v1/../v2", "POST /any", "GET /any", "GET /v1"], "{report}");
        assert!(!report["network"].to_string().contains("token=secret"));
    }
}

/// A name that is allowed may still lead where nobody may go, unless the operator says so.
#[test]
fn an_allowed_name_that_leads_to_a_private_address_is_refused_unless_the_operator_excepts_it() {
    let rules = ["http://inner.example.com:80", "http://meta.example.com:80", "http://self.example.com:8011"];
    for net in Net::each(&rules, "") {
        let script = "for url in http://inner.example.com/ http://meta.example.com/ http://self.example.com:8011/; do curl -s $url; done";
        let report = net.run(&[], script);
        let lines = lines(&report);
        assert!(lines.len() == 3 && lines.iter().all(|line| line.contains("no name may lead to")), "{report}");
        net.place.write("settings.toml", "[ceiling.network]\nprivate = [\"10.9.0.0/16\"]\n");
        let report = net.run(&[], script);
        let lines = super::lines(&report);
        assert!(lines[0] == "PRIVATE says hello" && lines[1..].iter().all(|line| line.contains("no name may lead to")), "{report}");
    }
}

#[test]
fn the_limits_of_requests_and_bytes_hold_and_are_told() {
    for net in Net::each(&["http://good.example.com:80"], "") {
        let script = "for i in 1 2 3 4; do curl -s -o /dev/null -w '%{http_code} ' http://good.example.com/; done";
        let report = net.run(&["--limit", "network-requests=2"], script);
        assert_eq!((lines(&report), report["limits_reached"].to_string()), (vec!["200 200 403 403 "], "[\"network-requests\"]".into()));
        net.place.write("internet/www/big", vec![b'x'; 1 << 20]);
        let report = net.run(&["--limit", "network-bytes=100KiB"], "curl -s http://good.example.com/files/big | wc -c");
        assert_eq!(report["limits_reached"].to_string(), "[\"network-bytes\"]");
        assert!(lines(&report)[0].parse::<u64>().unwrap() <= 100 << 10, "{report}");
    }
}
