#!/bin/sh
# Compares the exported API of each module with its last tag, once there is one: api.sh [module ...]. An incompatible change is
# refused unless the section Unreleased of CHANGELOG.md names the identifier. A clone without the tags compares nothing, so CI
# fetches them.
set -eu

root=$(git rev-parse --show-toplevel 2>/dev/null) || exit 0 # a copy without history
tools=$(cd "$(dirname "$0")" && pwd)
modfile=$tools/go.mod
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ $# = 0 ]; then set -- .; fi
status=0
for module; do
	prefix=; [ "$module" = . ] || prefix=$module/
	tag=$(cd "$root" && "$tools/last_tag.sh" "$prefix") || continue
	path=$(cd "$root/$module" && go list -m)
	library=$(cd "$root" && go list -m)
	old=$work/$prefix$tag
	mkdir -p "$old"
	git -C "$root" archive "$tag" | tar -x -C "$old"
	{
		cd "$old/$module" && { [ "$module" = . ] || go mod edit -replace "$library=$old"; } && # not yet on a proxy, perhaps
			go tool -modfile="$modfile" apidiff -m -w "$work/old.export" "$path" &&
			cd "$root/$module" && go tool -modfile="$modfile" apidiff -m -incompatible "$work/old.export" "$path"
	} >"$work/changes" 2>"$work/errors" || { cat "$work/errors" >&2; exit 1; } # which also lists internal packages
	awk '/^## / { on = /Unreleased/; next } on' "$root/CHANGELOG.md" >"$work/unreleased"
	while read -r change; do
		case $change in '- '*) ;; *) continue ;; esac
		name=$(printf '%s\n' "$change" | sed -E 's/^- //; s/: .*//; s/,.*//; s/.*[.)]//; s|^/||')
		if ! grep -qw -- "$name" "$work/unreleased"; then
			echo "$module: incompatible with $tag, and $name is not in the section Unreleased of CHANGELOG.md: $change" >&2
			status=1
		fi
	done <"$work/changes"
done
exit $status
