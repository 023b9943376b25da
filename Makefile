# `make help` lists the targets.

CARGO ?= cargo

.DEFAULT_GOAL := build
.PHONY: build package release install demo test test-fast test-long test-deps lint links fuzz storm storm-pools soak mutants mutants-cargo bench counts clean help

build: ## Build the program: target/release/brindle
	$(CARGO) build --release -p brindle -p brindle-console

PREFIX ?= /usr/local
PROGRAM ?= target/release/brindle

install: build ## Put program, man pages and completions below PREFIX (default /usr/local), DESTDIR before that
	scripts/package --install "$(PREFIX)" "$(PROGRAM)"

package: ## A static program in a tar, a Debian package, an OCI image, checksums: target/package
	scripts/package

release: ## The same of a tag, built twice and compared: TAG=v0.1.0
	scripts/release "$(TAG)"

demo: build ## Create an array, lose disks, get every byte back; no root needed
	target/release/brindle demo

test: ## Install what the tests need (where that is possible), lint, run every test
	scripts/test.sh

test-fast: ## Every test that boots no virtual machine
	scripts/test-fast

test-long: ## An hour of storms (MINUTES=60) and every mutant; keeps the result in docs/test-long.md
	scripts/test-long "$(or $(filter-out 1,$(MINUTES)),60)" $(SEED)

test-deps: ## Install what the tests need from Debian, or name what is missing
	scripts/install-test-deps.sh

lint: ## Formatting, clippy, links of comments, the rules of ARCHITECTURE.md, licences
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(MAKE) --no-print-directory links
	$(CARGO) xtask tidy
	$(CARGO) xtask deny

links: ## Links of comments to things that are not there; part of lint. Only crates that changed are documented anew
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --no-deps --document-private-items --workspace

MINUTES ?= 1

fuzz: ## Fuzz every parser, assembly and the NBD server, each for MINUTES (default 1)
	scripts/fuzz $(MINUTES)

storm: ## Search for crashes that lose data, for MINUTES (default 1) from SEED; SEED and CUT replay one; ONLY=doors: iSCSI beside NBD
	scripts/storm "$(MINUTES)" "$(SEED)" "$(CUT)" "$(FAULTS)" "$(ONLY)"

storm-pools: ## The same of pools alone; counts cuts by what a pool was at
	scripts/storm "$(MINUTES)" "$(SEED)" "$(CUT)" "" pools

soak: ## A server under fio --verify while everything happens to its members, for MINUTES (default 1)
	BRINDLE_SOAK_MINUTES=$(MINUTES) $(CARGO) test --release -p brindle-tests --test all -- soak:: --nocapture

mutants: ## Break the engine on purpose and count the seeds that notice; ONLY=name SECONDS=60 SEEDS=10
	$(CARGO) xtask mutants "ONLY=$(ONLY)" "SECONDS=$(SECONDS)" "SEEDS=$(SEEDS)" "SEED=$(SEED)"

FILES ?= crates/array/src/keeper/*.rs crates/array/src/ledger/*.rs crates/array/src/*/record.rs crates/md/src/ledger/*.rs crates/md/src/assembly/*.rs

mutants-cargo: ## cargo-mutants over FILES (default: keeper, ledger and assembly) with the engine's quick tests; hours
	$(CARGO) mutants -p brindle-array -p brindle-md $(foreach file,$(FILES),-f '$(file)') --timeout 300 -- --test control --test engine

bench: ## Measure everything; print the tables and store them in docs/bench
	scripts/bench

counts: ## Count the instructions of the hot paths, and hold them against docs/bench/instructions.toml
	$(CARGO) xtask counts

clean: ## Remove everything that was built or downloaded
	$(CARGO) clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
