# What the scripts for containers share: where things go, how they speak. Sourced, not run.

source "$(dirname "${BASH_SOURCE[0]}")/../setup.d/common.bash"

speaker=containers
: "${SETUP_BEGIN:=$(date +%s)}"
containers_dir="${SLUICE_CONTAINERS:-$sluice_home/containers}"
export DOCKER_HOST="unix://$containers_dir/docker.sock"
