# A Sluice server on a throw-away data directory, for scripts. Sourced, not run: call start_server;
# everything goes when the script ends, and the server's log is shown if it ends badly.

source "$(dirname "${BASH_SOURCE[0]}")/setup.d/common.bash"
cd "$root_dir"

server=""

# start_server: returns when it is ready, with SLUICE_URL and SLUICE_API_KEY exported.
start_server() {
	# Not in /tmp: root's PostgreSQL runs as another user, who must get to the data.
	mkdir -p "$sluice_home"
	work="$(mktemp -d "$sluice_home/throwaway.XXXXXX")"
	chmod 0755 "$work"
	log="$work/log"
	trap cleanup EXIT
	trap 'exit 130' INT TERM

	mkfifo "$work/ready"
	# A process group of its own, so that a Ctrl-C in the terminal comes here first and the server
	# is stopped once.
	set -m
	bin/sluice up --data "$work/data" --listen 127.0.0.1:0 --json >"$work/ready" 2>"$log" &
	server=$!
	set +m
	local line
	exec 3<"$work/ready"
	# Until it is ready, or ends, which closes the pipe.
	read -r line <&3 || fail "the server ended before it was ready"
	SLUICE_URL="$(field url "$line")"
	SLUICE_API_KEY="$(field api_key "$line")"
	export SLUICE_URL SLUICE_API_KEY
	[[ -n "$SLUICE_URL" && -n "$SLUICE_API_KEY" ]] || fail "the server printed no url and api_key: $line"
}

# field NAME LINE: a string or number in a line of JSON.
field() { sed -nE 's/.*"'"$1"'": ?"?([^",}]*).*/\1/p' <<<"$2"; }

# stop_server: SIGINT as Ctrl-C would send it; what the server exits with is the result.
stop_server() {
	local pid="$server" status=0
	server=""
	kill -INT "$pid" 2>/dev/null || true
	wait "$pid" || status=$?
	return "$status"
}

cleanup() {
	local status=$?
	trap - EXIT
	if [[ -n "$server" ]]; then stop_server || true; fi
	if [[ "$status" != 0 && -s "$log" ]]; then
		echo "--- the server's log:" >&2
		tail -50 "$log" >&2
	fi
	rm -rf "$work"
	exit "$status"
}
