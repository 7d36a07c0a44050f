# What the scripts for containers share: where things go, how they speak. Sourced, not run.

set -euo pipefail

root_dir="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
# The same rule as tools/setup.d/common.bash.
if [[ -n "${SLUICE_HOME:-}" ]]; then
	sluice_home="$SLUICE_HOME"
elif [[ "$(id -u)" == 0 ]]; then
	sluice_home=/var/lib/sluice
else
	sluice_home="${XDG_DATA_HOME:-$HOME/.local/share}/sluice"
fi
containers_dir="${SLUICE_CONTAINERS:-$sluice_home/containers}"
export DOCKER_HOST="unix://$containers_dir/docker.sock"

say() { echo "containers: $(printf '%4d' "$SECONDS") s: $*" >&2; }

fail() {
	echo "containers: $1" >&2
	shift
	local line
	for line in "$@"; do echo "  $line" >&2; done
	exit 1
}

# quietly COMMAND...: shows what the command printed only when it fails.
quietly() {
	local printed status=0
	printed="$("$@" 2>&1)" || status=$?
	if [[ "$status" != 0 ]]; then
		printf '%s\n' "$printed" | tail -40 >&2
		say "failed: $*"
	fi
	return "$status"
}
