#!/bin/bash
# Asks the program in this container whether it is ready: healthcheck PORT. The images have no curl.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/$1"
printf 'GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r -t 10 _ status _ <&3
[[ "$status" == 200 ]]
