#!/bin/sh
# need.sh PACKAGE... installs the missing ones of these Debian packages. It starts no
# service: the throwaway node runs its own containerd.
set -eu

# Two runs at once would collide at dpkg's lock. A run that waited may find all packages
# installed.
if [ "$(id -u)" = 0 ] && [ -z "${EBB_NEED_LOCKED:-}" ]; then
	EBB_NEED_LOCKED=1 exec flock /run/lock/ebb-need "$0" "$@"
fi

missing=""
for package in "$@"; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "need.sh: missing packages:$missing; run as root, or: apt-get install$missing" >&2
	exit 1
fi

# A package with a service would start it. policy-rc.d forbids that during this
# installation, unless the machine has its own policy.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT INT TERM
fi

echo "installing:$missing"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # one word per package is what is wanted
if ! { apt-get install -y --no-install-recommends $missing ||
	{ apt-get update && apt-get install -y --no-install-recommends $missing; }; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	rm -f "$log"
	echo "need.sh: apt-get could not install:$missing" >&2
	exit 1
fi
rm -f "$log"
