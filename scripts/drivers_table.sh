#!/usr/bin/env bash
# Writes the table of docs/drivers.md anew from reports of `vkattn conform --json`:
#   scripts/drivers_table.sh [REPORT.json...]
# Default: the reports that scripts/test.sh --all has left in build/conform/. The tool is
# build/bin/vkattn, or $VKATTN.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=${VKATTN:-build/bin/vkattn}
if [ $# -eq 0 ]; then
    # The report has no device where the driver was missing.
    mapfile -t reports < <(grep -sL '^ "devices": \[\]' build/conform/*.json)
    set -- "${reports[@]:-build/conform/*.json}"
fi
[ -e "$1" ] || { echo "$0: no report at $1: run scripts/test.sh --all --part conform --part drivers first, or name reports of vkattn conform --json" >&2; exit 2; }
table=$("$tool" conform --table "$@")
page=docs/drivers.md
begin='<!-- conform: scripts/drivers_table.sh writes what follows -->'
end='<!-- conform: end -->'
grep -qxF -- "$begin" $page && grep -qxF -- "$end" $page || { echo "$0: $page has not both lines '$begin' and '$end'" >&2; exit 1; }
awk -v begin="$begin" -v end="$end" -v table="$table" '
    $0 == begin { print; print ""; print table; print ""; skip = 1; next }
    $0 == end { skip = 0 }
    !skip' $page >$page.tmp
mv $page.tmp $page
echo "$page: $# reports"
