#!/bin/sh
# Brings what the tests need besides Go: a Redis server, a JDK 17 or later with Maven for the Java peer, a C compiler for
# the race detector, Chromium for the pages of rrl serve, nginx for the file of docs/envoy.md, pip for Envoy and other servers
# (internal/redistest/release.go), and make and a C++ compiler for the one of them that is built. As root with apt-get it installs what is missing; elsewhere it
# says what will be left out, as such tests skip themselves. With CI=true whatever is still missing is an error.
set -eu

# unmet prints what is missing on one line, in words that package and left_out know.
unmet() {
	set --
	command -v "${REDIS_SERVER:-redis-server}" >/dev/null || set -- "$@" redis-server
	has_jdk || set -- "$@" jdk
	command -v mvn >/dev/null || set -- "$@" maven
	echo '#include <stdlib.h>' | ${CC:-gcc} -E - >/dev/null 2>&1 || set -- "$@" gcc
	python3 -m pip --version >/dev/null 2>&1 || set -- "$@" pip
	command -v chromium >/dev/null || set -- "$@" chromium
	command -v nginx >/dev/null || set -- "$@" nginx
	command -v make >/dev/null || set -- "$@" make
	command -v git >/dev/null || set -- "$@" git
	command -v g++ >/dev/null || set -- "$@" g++
	echo "$*"
}

has_jdk() {
	command -v java >/dev/null || return 1
	version=$("${JAVA_HOME:+$JAVA_HOME/bin/}javac" -version 2>/dev/null) || return 1
	version=${version#javac }
	version=${version%%[!0-9]*}
	[ "${version:-0}" -ge 17 ]
}

package() {
	case $1 in
	jdk) # the newest releases of Debian have no 17 any more
		apt-cache show openjdk-17-jdk-headless 2>/dev/null | grep -q . &&
			echo openjdk-17-jdk-headless || echo default-jdk-headless ;;
	gcc) echo gcc libc6-dev ;;
	pip) echo python3-pip ;;
	chromium) # Ubuntu has none, and one unknown name would keep apt-get from all others
		apt-cache show chromium 2>/dev/null | grep -q . && echo chromium || : ;;
	*) echo "$1" ;;
	esac
}

left_out() {
	case $1 in
	redis-server) echo 'There is no redis-server: whatever needs a real Redis is left out.' ;;
	jdk) echo 'There is no JDK 17 or later: the tests against Redisson are left out.' ;;
	maven) echo 'There is no Maven (mvn): the tests against Redisson are left out.' ;;
	gcc) echo 'There is no C compiler with its headers: the race detector is left out.' ;;
	pip) echo 'There is no pip for python3: the tests on Envoy and on servers other than redis-server are left out.' ;;
	chromium) echo 'There is no chromium: the tests of the pages of rrl serve in a browser are left out.' ;;
	nginx) echo 'There is no nginx: the test of examples/envoy/nginx.conf is left out.' ;;
	git) echo 'There is no git: the rehearsal of a release fails.' ;;
	make | g++) echo "There is no $1: the tests on Redis 8 are left out." ;;
	esac
}

# install installs what is missing. One at a time: it exchanges a file of the machine's and puts it back.
install() {
	exec 9</var/lib/dpkg
	flock 9
	wanted=$(unmet)
	[ -n "$wanted" ] || return 0
	echo "Installing what the tests need: $wanted"
	log=$(mktemp)
	trap 'allow_daemons; rm -f "$log"' EXIT
	trap 'exit 1' HUP INT TERM
	deny_daemons
	if ! { apt_get "$wanted" || { sleep 5 && apt_get "$wanted"; }; } >"$log" 2>&1 </dev/null 9<&-; then
		echo "apt-get failed; the end of what it said:" >&2
		tail -n 30 "$log" >&2
	fi
	for daemon in redis-server nginx; do # nor at the next boot
		case $wanted in *"$daemon"*) update-rc.d "$daemon" disable >/dev/null 2>&1 || : ;; esac
	done
}

apt_get() {
	export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 RUNLEVEL=1
	apt-get update || : # one broken source among many need not matter
	names=
	for need in $1; do
		names="$names $(package "$need")"
	done
	# shellcheck disable=SC2086 # a list
	apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold $names
}

# The Debian package of a server starts it, on its default port. It asks this file before, and 101 means no. The mark tells
# our file from the machine's own, after a run that was killed before it could tidy up.
policy=/usr/sbin/policy-rc.d
mark='rratelimiter: for the time of an installation'

deny_daemons() {
	if [ -e "$policy" ] && ! grep -qs "$mark" "$policy"; then
		mv "$policy" "$policy.kept"
	fi
	printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
	chmod 755 "$policy"
}

allow_daemons() {
	if grep -qs "$mark" "$policy"; then
		rm "$policy"
	fi
	if [ -e "$policy.kept" ]; then
		mv "$policy.kept" "$policy"
	fi
}

if [ -n "$(unmet)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	install
fi
missing=$(unmet)
[ -n "$missing" ] || exit 0
if [ "${CI:-}" = true ]; then
	echo "With CI=true nothing may be left out, and this is missing: $missing" >&2
	exit 1
fi
for need in $missing; do
	left_out "$need" >&2
done
if command -v apt-get >/dev/null && [ "$(id -u)" != 0 ]; then
	echo 'sudo tools/bring.sh installs what is missing.' >&2
fi
