#!/usr/bin/env bash
# Everything that must hold before a change is accepted. `make test` and CI run this.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
BRINDLE_MACHINE_TIMES=$(mktemp)
export BRINDLE_MACHINE_TIMES
trap 'rm -f "$log" "$BRINDLE_MACHINE_TIMES"' EXIT
failed=0

# Runs one step and keeps what it prints for the count at the end. A failing step does not keep the others from
# running: whoever mends a change wants to know all that is wrong with it. Exit status 77 says that the step was
# skipped, which CI does not accept.
step() {
    local status=0 begun=$SECONDS
    printf '\n=== %s\n' "$*"
    "$@" 2>&1 | tee -a "$log" || status=$?
    printf '=== step %s s: %s\n' $((SECONDS - begun)) "$*" | tee -a "$log"
    if [ "$status" -ne 0 ] && { [ "$status" -ne 77 ] || [ "${CI:-}" = true ]; }; then
        echo "=== FAILED: $*" | tee -a "$log"
        failed=1
    fi
}

step scripts/install-test-deps.sh
step make --no-print-directory lint
step scripts/cargo-tests
step scripts/test-neon
step "${CARGO:-cargo}" xtask counts

scripts/test-times docs/test-times.md "$log" "$BRINDLE_MACHINE_TIMES"
sed -n '/^## Steps/,/^## Guests/p' docs/test-times.md

# One line for all: tests by the count of their runner, skips by the line with which each tells its reason.
awk -v failed_steps="$failed" '
    /^test result:/ { passed += $4; failed += $6 }
    /SKIPPED: / { skipped++ }
    END {
        if (failed_steps && !failed) failed = 1
        printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$log"
exit "$failed"
