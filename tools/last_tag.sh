#!/bin/sh
# Prints the newest tag before HEAD, of the module whose folder is given: last_tag.sh [folder/]. A release tags a commit beside the
# branch, without replace in its go.mod files, so git describe does not find it: the parent of that commit is on the branch.
set -eu

head=$(git rev-parse HEAD)
for tag in $(git -c versionsort.suffix=- tag --list "${1-}v[0-9]*" --sort=-v:refname); do
	commit=$(git rev-parse "$tag^{commit}")
	base=$(git rev-parse -q --verify "$commit^") || base=$commit
	if [ "$commit" != "$head" ] && [ "$base" != "$head" ] && git merge-base --is-ancestor "$base" "$head"; then
		echo "$tag"
		exit
	fi
done
exit 1
