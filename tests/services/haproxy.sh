#!/usr/bin/env bash
# A real HAProxy on the loopback interface, with the configuration that docker/ ships.
#   haproxy.sh start|stop|restart|status|crash|wipe
#   haproxy.sh drain NAME    no new clients for this instance; those that it has stay
#   haproxy.sh enable NAME   new clients for it again
#   haproxy.sh servers       each instance: its name, its state, its connections
#   haproxy.sh reload        as after a change of the configuration; open streams stay
#
# PROXY_PORT  8400                      where it listens
# UPSTREAMS   127.0.0.1:8080            the instances, with blanks between; their names are one, two, three, ...
# MAX_CLIENTS 9000                      each takes two open files
#
# Debian and Ubuntu: apt-get install --no-install-recommends haproxy
set -euo pipefail
# shellcheck disable=SC2034 # lib.sh reads it
service=haproxy
port="${PROXY_PORT:-8400}"
script_folder="$(dirname "$(readlink -f "$0")")"
# shellcheck source=tests/services/lib.sh
. "$script_folder/lib.sh"

upstreams="${UPSTREAMS:-127.0.0.1:8080}"
max_clients="${MAX_CLIENTS:-9000}"
shipped="$script_folder/../../docker/haproxy.cfg"
socket="$directory/admin.sock"

# What is shipped, but for addresses and limits: the two lists of instances become ours.
write_configuration() {
  awk -v upstreams="$upstreams" '
    BEGIN { count = split(upstreams, address, " "); split("one two three four five six seven eight", name, " ") }
    $1 != "server" { print; next }
    {
      list = $2 ~ /-anyway$/ ? "-anyway" : ""
      if (list in written) next
      written[list] = 1
      options = ""
      for (field = 4; field <= NF; field++) options = options " " $field
      for (i = 1; i <= count; i++) print "    server " name[i] list " " address[i] options
    }' "$shipped" |
    sed -e "s|^\( *bind\) :8080|\1 127.0.0.1:$port|" -e "s|/run/haproxy/admin.sock|$socket|" \
      -e "s|^\( *maxconn\) .*|\1 $max_clients|" >"$directory/haproxy.cfg"
}

# ask COMMAND: what HAProxy says at its socket.
ask() {
  python3 -c '
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(5)
connection.connect(sys.argv[1])
connection.sendall(sys.argv[2].encode() + b"\n")
while data := connection.recv(65536):
    sys.stdout.write(data.decode())
' "$socket" "$1"
}

worker() { ask "show info" 2>/dev/null | sed -n 's/^Pid: //p'; }

# It is ready when it has asked each instance whether it is.
is_ready() {
  listening "$port" && ask "show stat" | awk -F, '
    NR == 1 { for (field = 1; field <= NF; field++) column[$field] = field }
    $1 == "freshet" && $2 != "BACKEND" && $2 !~ /-anyway$/ {
      instances++
      if ($column["check_status"] !~ /^(INI)?$/) asked++
    }
    END { exit !instances || asked < instances }'
}

start_service() {
  require_command haproxy haproxy
  require_command python3 python3
  require_free "$port"
  mkdir -p "$directory"
  write_configuration
  haproxy -c -q -f "$directory/haproxy.cfg"
  launch "$directory/pid" "$directory/log" haproxy -W -db -f "$directory/haproxy.cfg"
  wait_until_ready "$directory/pid" "$directory/log" is_ready
  echo "haproxy: http://127.0.0.1:$port -> $upstreams"
}

another_works() {
  local number
  number="$(worker)" && [ -n "$number" ] && [ "$number" != "$1" ]
}

reload() {
  local before
  running "$directory/pid" || fail "it is not running"
  before="$(worker)"
  write_configuration
  haproxy -c -q -f "$directory/haproxy.cfg"
  signal USR2 "$directory/pid"
  wait_for "$patience_secs" another_works "$before" || fail "it did not take the configuration"
  wait_until_ready "$directory/pid" "$directory/log" is_ready
}

# set_state NAME STATE
set_state() {
  local answer
  running "$directory/pid" || fail "it is not running"
  answer="$(ask "set server freshet/$1 state $2")"
  [ -z "$answer" ] || fail "$answer"
}

stop_service() { end "$directory/pid"; }
crash_service() { crash "$directory/pid"; }

case "${1:-}" in
  drain) set_state "${2:?the name of an instance}" drain ;;
  enable) set_state "${2:?the name of an instance}" ready ;;
  servers) ask "show stat" | awk -F, '$1 == "freshet" && $2 != "BACKEND" { print $2, $18, $5 }' ;;
  reload) reload ;;
  *) dispatch "${1:-}" ;;
esac
