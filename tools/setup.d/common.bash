# What the set-up scripts share: where things go, how they speak. Sourced, not run.

set -euo pipefail

root_dir="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

# Where Sluice keeps what it built or fetched for itself. The same rule as Home and ToolsDir in
# internal/local.
if [[ -n "${SLUICE_HOME:-}" ]]; then
	sluice_home="$SLUICE_HOME"
elif [[ "$(id -u)" == 0 ]]; then
	sluice_home=/var/lib/sluice
else
	sluice_home="${XDG_DATA_HOME:-$HOME/.local/share}/sluice"
fi
tools_dir="$sluice_home/tools"

# The Makefile's flags, where a part is run by itself: what one compiles serves the other.
if [[ "${GOFLAGS:-}" != *netgo* ]]; then export GOFLAGS="${GOFLAGS:+$GOFLAGS }-tags=netgo,osusergo"; fi

# Who speaks.
speaker=setup

# say LINE: with the time since tools/setup began.
say() {
	local at=""
	if [[ -n "${SETUP_BEGIN:-}" ]]; then at="$(printf '%4d s: ' $(($(date +%s) - SETUP_BEGIN)))"; fi
	echo "$speaker: $at$*" >&2
}

# begin WHAT HOW-LONG: what a part calls when it knows that it has something to do, and can. Where
# tools/setup only asks what there is to do, the part ends here.
begin() {
	if [[ -n "${SETUP_ASK:-}" ]]; then
		echo "$1 (about $2)"
		exit 0
	fi
}

# at_least VERSION MINIMUM
at_least() { [[ -n "$1" && "$(printf '%s\n' "$1" "$2" | sort -V | head -1)" == "$2" ]]; }

fail() {
	echo "$speaker: $1" >&2
	shift
	local line
	for line in "$@"; do echo "  $line" >&2; done
	exit 1
}

# True when packages can be installed with apt without asking anybody.
can_apt() { [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null; }

# apt_knows PACKAGE: true when the package lists have a version that can be installed.
apt_knows() {
	local candidate
	candidate="$(apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ {print $2}')"
	[[ -n "$candidate" && "$candidate" != "(none)" ]]
}

# apt_install PACKAGE...: refreshes the lists only when they don't know the packages or are too old
# to fetch them.
apt_install() {
	local package
	for package in "$@"; do
		if ! apt_knows "$package"; then
			apt_update
			break
		fi
	done
	say "installing with apt: $*"
	apt_get install "$@" || { apt_update && apt_get install "$@"; }
}

apt_update() {
	if [[ -z "${apt_updated:-}" ]]; then
		say "refreshing apt's package lists"
		apt_get update
		apt_updated=yes
	fi
}

# --no-upgrade: what is installed and named here only to be sure stays at its version.
apt_get() {
	DEBIAN_FRONTEND=noninteractive quietly apt-get -qq -y --no-install-recommends --no-upgrade "$@"
}

# quietly COMMAND...: shows what the command printed only when it fails.
quietly() {
	local printed status=0
	printed="$("$@" 2>&1)" || status=$?
	if [[ "$status" != 0 ]]; then
		printf '%s\n' "$printed" >&2
		say "failed: $*"
	fi
	return "$status"
}

# scratch: a new directory, removed when the script ends.
scratch() {
	scratch_dir="$(mktemp -d)"
	trap 'rm -rf "$scratch_dir"' EXIT
}
