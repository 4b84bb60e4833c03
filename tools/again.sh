#!/bin/sh
# Runs the binary of a test, and runs it once more if the race detector itself has crashed. Under testing/synctest it does so about once
# in a few hundred tests: https://go.dev/issue/78156. Its output is kept until it ends, as gotestsum counts a test that has begun twice
# as failed.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
"$@" >"$output" 2>&1
code=$?
if [ $code != 0 ] && grep -q 'ThreadSanitizer: CHECK failed' "$output"; then
	"$@" >"$output" 2>&1
	code=$?
fi
cat "$output"
exit $code
