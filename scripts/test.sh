#!/usr/bin/env bash
# Everything that must hold before a change is accepted. `make test` and CI run this.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
aside=$(mktemp)
BRINDLE_MACHINE_TIMES=$(mktemp)
export BRINDLE_MACHINE_TIMES
trap 'rm -f "$log" "$aside" "$BRINDLE_MACHINE_TIMES"' EXIT

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
    fi
}

# Begins a step that leaves a processor idle, beside those that follow; `joined` waits for it, and prints what it printed.
beside() {
    (log=/dev/null && step "$@") >"$aside" &
    other=$!
}

joined() {
    wait "$other"
    tee -a "$log" <"$aside"
}

step scripts/install-test-deps.sh packages
beside scripts/install-test-deps.sh others
step make --no-print-directory lint
joined
step scripts/cargo-tests
beside scripts/test-neon
step "${CARGO:-cargo}" xtask counts
joined

failed=0
! grep -q '^=== FAILED: ' "$log" || failed=1
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
