# `make help` lists the targets.

CARGO ?= cargo

.DEFAULT_GOAL := build
.PHONY: build demo test test-deps lint fuzz bench clean help

build: ## Build the program: target/release/brindle
	$(CARGO) build --release -p brindle

demo: build ## Create an array, lose disks, get every byte back; no root needed
	target/release/brindle demo

test: ## Install what the tests need (where that is possible), lint, run every test
	scripts/test.sh

test-deps: ## Install what the tests need from Debian, or name what is missing
	scripts/install-test-deps.sh

lint: ## Formatting, clippy, the rules of ARCHITECTURE.md, licences
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask tidy
	$(CARGO) xtask deny

MINUTES ?= 1

fuzz: ## Fuzz every parser, assembly and the NBD server, each for MINUTES (default 1)
	scripts/fuzz $(MINUTES)

bench: ## Measure everything; print the tables and store them in docs/bench
	scripts/bench

clean: ## Remove everything that was built or downloaded
	$(CARGO) clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
