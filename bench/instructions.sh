#!/usr/bin/env bash
# Instructions of four kernels, counted by callgrind, against those kept in bench/instructions.txt.
#
#   bash bench/instructions.sh            fails when one grew by more than 3 %
#   bash bench/instructions.sh --update   keeps the new counts
#
# Counts do not feel the neighbours, as times do. They belong to a compiler and an instruction set: after a
# change of either, look at them and update.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=bench/instructions.txt
update=${1:-}

if ! command -v valgrind >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind || true
  fi
  if ! command -v valgrind >/dev/null 2>&1; then
    echo "!! SKIPPED: instruction counts, because valgrind is not installed" >&2
    exit 0
  fi
fi
cargo build --quiet --release --locked -p nsde --example instructions
program=${CARGO_TARGET_DIR:-target}/release/examples/instructions
new=$(mktemp)
trap 'rm -f "$new"' EXIT
status=0
for kernel in forward gradient wide abreast; do
  count=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='instructions::measured*' \
    "$program" "$kernel" 2>&1 | awk '/Collected/ { print $4 }')
  printf '%s %s\n' "$kernel" "$count" >>"$new"
  [ "$update" = --update ] && continue
  before=$(awk -v k="$kernel" '$1 == k { print $2 }' "$kept")
  growth=$(awk -v a="$before" -v b="$count" 'BEGIN { printf "%+.2f", 100 * (b / a - 1) }')
  echo "$kernel: $count instructions, $before kept, $growth %"
  if awk -v g="$growth" 'BEGIN { exit !(g > 3) }'; then
    echo "$kernel grew by more than 3 %; if that is meant: bash bench/instructions.sh --update" >&2
    status=1
  fi
done
[ "$update" = --update ] && cp "$new" "$kept" && cat "$kept"
exit "$status"
