#!/bin/sh
# Removes what the targets of the Makefile leave behind, in the checkout and outside it. What other projects use as well
# stays: docs/testing.md names it.
set -eu
cd "$(dirname "$0")/.."
rm -rf bin .cache compat_test/java/target ./*.test ./*.out

# The servers that tests have fetched (internal/redistest/release.go), which all checkouts of the user share.
case $(uname) in
Darwin) cache=${HOME:?}/Library/Caches ;;
*) cache=${XDG_CACHE_HOME:-${HOME:?}/.cache} ;;
esac
rm -rf "$cache/rratelimiter"

# What make fuzz has found to be of interest.
rm -rf "$(go env GOCACHE)/fuzz/$(go list -m)"

# The directories of servers whose tests were killed. Tests that run elsewhere keep theirs: no run takes an hour.
find "${TMPDIR:-/tmp}" -maxdepth 1 -type d -name 'redistest-*' -user "$(id -un)" -mmin +60 -exec rm -rf {} +
