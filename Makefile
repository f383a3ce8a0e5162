# What a developer does with ringfence. `make demo` and `make test` do their own set-up on a fresh Debian machine with Rust, as root or as an
# ordinary user; only installing missing system packages needs root, and says so.

.PHONY: demo test check docs deny guest clients fuzz soak bench help

help:            ## list the targets
	@grep -E '^[a-z]+: +##' Makefile | sed 's/: *##/\t/'

demo:            ## analyse a real data set in a sandbox, try three things that are refused, verify the evidence
	@scripts/setup.sh python3 cc
	@scripts/demo.sh

test:            ## every test: real kernel, real tools, as root also as an ordinary user
	@scripts/setup.sh python3 cc git openssl make real-tools busybox network package-clients venv clients-python-2.45.1 clients-python-2.63.0
	@scripts/registry.sh
	cargo test --workspace

check:           ## format, lints, documents, dependency edges
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo fmt --manifest-path crates/init/Cargo.toml --check
	cargo metadata --manifest-path fuzz/Cargo.toml --locked --format-version 1 > /dev/null
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --manifest-path crates/init/Cargo.toml --target-dir target/init --release -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
	cargo test -p ringfence --test edges

docs:            ## write the generated reference pages anew
	cargo build -p ringfence
	@scripts/docs.sh

deny:            ## licences, bans and sources of every dependency
	@scripts/setup.sh cargo-deny
	target/tools/bin/cargo-deny check bans licenses sources

guest:           ## another kernel and a pure cgroup v2 tree, in a small emulated machine
	@scripts/setup.sh qemu cc
	cargo build --release -p ringfence
	scripts/guest.sh target/release/ringfence scripts/guest-checks.sh

clients:         ## every client of E2B that is pinned in clients/, unmodified, against a server of ours; and all that our own API describes
	cargo build -p ringfence
	@scripts/clients.sh

fuzz:            ## fuzz what strangers write: 10 minutes or 200,000 inputs a target (FUZZ_SECONDS, FUZZ_RUNS)
	@scripts/setup.sh cc c++
	scripts/fuzz.sh

soak:            ## the tests that repeat, in full: 200 kills, every full disk, 500 exports, 1,000 edits, 10,000 runs, 100 kills of promotions, 10,000 races of approvals
	@scripts/setup.sh python3 cc
	cargo test -p ringfence-isolation --test it export_race -- --nocapture
	RINGFENCE_KILLS=200 RINGFENCE_FULL=100 RINGFENCE_RACES=50 RINGFENCE_EDITS=1000 \
		cargo test -p ringfence --test it -- --nocapture kills:: full:: race:: edits::
	RINGFENCE_APPROVAL_RACES=10000 cargo test -p ringfence-store --test it -- --nocapture approvals::
	RINGFENCE_PROMOTION_KILLS=100 RINGFENCE_VERDICT_RACES=100 cargo test -p ringfence --test it -- --nocapture promotion::kills:: promotion::races::
	RINGFENCE_SOAK=10000 cargo test -p ringfence --test soak

bench:           ## how long a run takes beside bubblewrap and others, one at a time and many at once (BENCH_ROUNDS)
	@scripts/setup.sh python3 cc bubblewrap proxies
	cargo bench --quiet -p ringfence --bench fence
	cargo bench --quiet -p ringfence --bench serving
	cargo bench --quiet -p ringfence-egress --bench proxy
