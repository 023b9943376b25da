#!/usr/bin/env bash
# Everything that must hold before a change is accepted. `make test` and CI run this.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    printf '\n=== %s\n' "$*"
    SECONDS=0
    "$@"
    printf '=== %s s\n' "$SECONDS"
}

step scripts/install-test-deps.sh
step make --no-print-directory lint

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
step cargo test --workspace --no-fail-fast 2>&1 | tee "$log" || status=$?

# One line for all test binaries; a skip is told by a test that passes and prints why.
awk -v status="$status" '
    /^test result:/ { passed += $4; failed += $6 }
    /SKIPPED:/ { skipped++ }
    END {
        if (status && !failed) failed = 1
        printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$log"
exit "$status"
