#!/usr/bin/env bash
# Every check of this project, in one command: format, lints, documents, benches, tests, the Python package.
#
#   bash test.sh          what needs neither PyTorch nor Ray
#   bash test.sh --all    everything; PyTorch takes 5.5 GB in a temporary folder
#
# It needs Rust (https://rustup.rs), a C compiler and Python 3.10 or newer; it adds what else it can. The
# browser test of the report needs Chromium: where it can be neither found nor installed, that test is
# skipped, loudly.
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
  "" | --all) ;;
  *) echo "test.sh: unknown argument $1; there is --all" >&2; exit 2 ;;
esac

step() { printf '\n== %s\n' "$*"; }
missing() { ! command -v "$1" >/dev/null 2>&1; }

if missing cargo; then
  echo "test.sh: cargo is not there; install Rust from https://rustup.rs and run again" >&2
  exit 2
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
if missing chromium && grep -rqi chromium crates/*/tests; then
  if [ "$(id -u)" = 0 ] && ! missing apt-get; then
    step "install chromium, for the browser test of the report"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } ||
      true
  fi
  if missing chromium; then
    echo "!! SKIPPED: the browser test of the report, because chromium is not installed" >&2
  fi
fi

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "names and links in the documents"
# Every `file.rs::name` in the map of equations and in the list of departures must be in that file.
cited=0
while IFS= read -r name; do
  file=${name%%::*} last=${name##*::}
  for root in crates/nsde crates/nsde/src crates/nsde-check crates/nsde-cli; do
    [ -f "$root/$file" ] && break
  done
  if ! grep -qE "(fn|struct|enum|trait|const|static) $last\b" "$root/$file" 2>/dev/null; then
    echo "docs/ cite \`$name\`, which is not there" >&2
    exit 1
  fi
  cited=$((cited + 1))
done < <(grep -ohE '`[a-z_/]+\.rs(::[A-Za-z0-9_]+)+`' docs/equations.md docs/departures.md | tr -d '\140' | sort -u)
# Every link to a file, from where the document lies.
linked=0
for page in *.md docs/*.md bench/*.md; do
  while IFS= read -r link; do
    if [ ! -e "$(dirname "$page")/${link%%#*}" ]; then
      echo "$page links to $link, which is not there" >&2
      exit 1
    fi
    linked=$((linked + 1))
  done < <(grep -oE '\]\([^)#:][^):]*\)' "$page" | sed 's/^](//; s/)$//')
done
echo "$cited names and $linked links, all there"

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

step "benches compile"
cargo bench --package nsde --no-run --locked

step "instruction counts"
bash bench/instructions.sh

step "tests"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo test --workspace --no-fail-fast --locked 2>&1 | tee "$log" || status=$?
# The sum over cargo's own "test result" lines: unit tests, integration tests and documentation examples.
awk '/^test result:/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^failed/) f += $(i-1); if ($i ~ /^ignored/) g += $(i-1) } n++ }
     END { if (n) { if (g) printf "\n%d ignored\n", g; printf "%d passed, %d failed\n", p, f } }' "$log"
[ "$status" = 0 ] || exit "$status"

step "the Python package"
bash python/test.sh "$@"
