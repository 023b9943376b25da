#!/usr/bin/env bash
# Runs every benchmark, prints its table and puts it into docs/bench/: `make bench`. On a machine that does anything
# else at the same time only the ratios mean something.
#
#   scripts/bench.sh [parity|engine|nbd]...
set -euo pipefail
cd "$(dirname "$0")/.."

new=$(mktemp)
trap 'rm -f "$new"' EXIT

# table NAME COMMAND...: what stands above the table in docs/bench/NAME.md stays; the table and the CPU are new.
table() {
    local name=$1 doc=docs/bench/$1.md cpu
    shift
    printf '\n=== %s\n' "$name"
    "$@" | tee "$new"
    grep -q '^|' "$new" || { echo "$name printed no table; $doc stays as it is" >&2; return 1; }
    cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    {
        sed -e '/^|/,$d' -e "s|^CPU: [^;]*|CPU: $cpu|" "$doc"
        grep '^|' "$new"
    } >"$doc.new"
    mv "$doc.new" "$doc"
}

parity() { table parity cargo bench -q -p brindle-parity --bench parity -- --markdown; }
engine() { table engine cargo run -q --release -p brindle-array --example engine_cost -- --markdown; }
nbd() { table nbd scripts/bench-nbd --markdown; }

if [ $# -eq 0 ]; then
    set -- parity engine nbd
fi
for subject in "$@"; do
    case $subject in
        parity | engine | nbd) "$subject" ;;
        *)
            echo "no benchmark $subject; there are parity, engine and nbd" >&2
            exit 2
            ;;
    esac
done
