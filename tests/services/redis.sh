#!/usr/bin/env bash
# A real Redis on the loopback interface: one server, one watched by sentinels, or a cluster.
#   redis.sh start|stop|restart|status|crash|wipe
#   redis.sh failover   sentinels: the replica becomes the master; returns when they agree on it
# `start` returns when commands are answered, and when sentinels or the cluster agree. What was acknowledged is on
# disk, so that it survives `crash`; `wipe` forgets it.
#
# REDIS_MODE      single      `single`, `sentinel` (a master, a replica, three sentinels) or `cluster` (three masters)
# REDIS_PORT      6390        the server; the next ports are the other processes':
#                             sentinel: +1 the replica, +2 to +4 the sentinels, which call the master `freshet`
#                             cluster:  +1, +2 the other masters, +10 to +12 their bus
# REDIS_PASSWORD  (none)      asked by servers, not by sentinels
#
# Debian and Ubuntu: apt-get install --no-install-recommends redis-server
set -euo pipefail
# shellcheck disable=SC2034 # lib.sh reads it
service=redis
port="${REDIS_PORT:-6390}"
# shellcheck source=tests/services/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

mode="${REDIS_MODE:-single}"
password="${REDIS_PASSWORD:-}"
# The client takes its password from here; an empty one would be sent too.
if [ -n "$password" ]; then export REDISCLI_AUTH="$password"; else unset REDISCLI_AUTH; fi
# Sentinels write it into their configuration without the quotes that other characters need.
case "$password" in *[!A-Za-z0-9_-]*) fail "REDIS_PASSWORD may hold letters, digits, _ and - only" ;; esac
case "$mode" in
  single)
    servers=("$port")
    sentinels=()
    ;;
  sentinel)
    servers=("$port" "$((port + 1))")
    sentinels=("$((port + 2))" "$((port + 3))" "$((port + 4))")
    ;;
  cluster)
    servers=("$port" "$((port + 1))" "$((port + 2))")
    sentinels=()
    ;;
  *) fail "REDIS_MODE is single, sentinel or cluster" ;;
esac

# ask PORT COMMAND...: what a server says.
ask() { timeout 10 redis-cli -h 127.0.0.1 -p "$1" "${@:2}"; }
# ask_sentinel PORT COMMAND...: the same of a sentinel, which has no password.
ask_sentinel() { env -u REDISCLI_AUTH timeout 10 redis-cli -h 127.0.0.1 -p "$1" "${@:2}"; }

# The servers write their configuration themselves when they change roles: it is made once.
write_server() {
  local number=$1 folder="$directory/$1"
  [ -e "$folder/redis.conf" ] && return
  mkdir -p "$folder"
  {
    cat <<CONF
bind 127.0.0.1
port $number
dir $folder
save ""
appendonly yes
appendfsync always
CONF
    if [ -n "$password" ]; then printf 'requirepass %s\nmasterauth %s\n' "$password" "$password"; fi
    if [ "$mode" = sentinel ] && [ "$number" != "$port" ]; then echo "replicaof 127.0.0.1 $port"; fi
    if [ "$mode" = cluster ]; then
      cat <<CONF
cluster-enabled yes
cluster-config-file nodes.conf
cluster-port $((number + 10))
cluster-node-timeout 2000
CONF
    fi
  } >"$folder/redis.conf"
}

write_sentinel() {
  local number=$1 folder="$directory/$1"
  [ -e "$folder/sentinel.conf" ] && return
  mkdir -p "$folder"
  {
    cat <<CONF
bind 127.0.0.1
port $number
dir $folder
sentinel monitor freshet 127.0.0.1 $port 2
sentinel down-after-milliseconds freshet 1000
sentinel failover-timeout freshet 5000
CONF
    if [ -n "$password" ]; then printf 'sentinel auth-pass freshet %s\n' "$password"; fi
  } >"$folder/sentinel.conf"
}

answers() { [ "$(ask "$1" ping)" = PONG ]; }

# master_of PORT: the port of the master that this sentinel names.
master_of() { ask_sentinel "$1" sentinel get-master-addr-by-name freshet | tail -n 1; }

# has_role PORT ROLE
has_role() { ask "$1" role | head -n 1 | grep -qx "$2"; }

replica_follows() {
  local number
  for number in "${servers[@]}"; do
    if has_role "$number" slave; then
      ask "$number" info replication | grep -q '^master_link_status:up'
      return
    fi
  done
  return 1
}

# Whether each sentinel knows the other two, and a replica that it may promote.
sentinels_agree() {
  local number state
  for number in "${sentinels[@]}"; do
    state="$(ask_sentinel "$number" sentinel master freshet | paste -d ' ' - -)" || return 1
    grep -qx 'num-other-sentinels 2' <<<"$state" && grep -qx 'num-slaves 1' <<<"$state" || return 1
    [ "$(ask_sentinel "$number" sentinel ckquorum freshet | cut -c -3)" = "OK " ] || return 1
    # A replica that was not yet asked is not promoted.
    ask_sentinel "$number" sentinel replicas freshet | grep -qx 'slave' || return 1
  done
}

cluster_agrees() {
  local number
  for number in "${servers[@]}"; do
    ask "$number" cluster info | tr -d '\r' | grep -qx 'cluster_state:ok' || return 1
  done
}

is_ready() {
  local number
  for number in "${servers[@]}"; do answers "$number" || return 1; done
  case "$mode" in
    sentinel) replica_follows && sentinels_agree ;;
    cluster) cluster_agrees ;;
  esac
}

start_service() {
  local number
  require_command redis-server redis-server
  require_command redis-cli redis-tools
  mkdir -p "$directory"
  for number in "${servers[@]}" "${sentinels[@]}"; do
    running "$(pid_of "$number")" || require_free "$number"
  done
  for number in "${servers[@]}"; do
    write_server "$number"
    running "$(pid_of "$number")" ||
      launch "$(pid_of "$number")" "$directory/log" redis-server "$directory/$number/redis.conf"
    wait_until_ready "$(pid_of "$number")" "$directory/log" answers "$number"
  done
  for number in "${sentinels[@]}"; do
    write_sentinel "$number"
    running "$(pid_of "$number")" ||
      launch "$(pid_of "$number")" "$directory/log" redis-server "$directory/$number/sentinel.conf" --sentinel
  done
  if [ "$mode" = cluster ] && ask "$port" cluster info | grep -q '^cluster_slots_assigned:0'; then
    ask "$port" --cluster create "${servers[@]/#/127.0.0.1:}" --cluster-yes >>"$directory/log" 2>&1 ||
      fail "the cluster cannot be made; its log is $directory/log"
  fi
  wait_until_ready "$directory/pid" "$directory/log" is_ready
  echo "redis: $mode redis://127.0.0.1:$port"
}

# The first server's stands where lib.sh looks.
pid_of() {
  if [ "$1" = "$port" ]; then echo "$directory/pid"; else echo "$directory/$1/pid"; fi
}

# Sentinels end before the servers, lest they take the stop for a failure.
stop_service() {
  local number
  for number in "${sentinels[@]}" "${servers[@]}"; do end "$(pid_of "$number")"; done
}

crash_service() {
  local number
  for number in "${sentinels[@]}" "${servers[@]}"; do crash "$(pid_of "$number")"; done
}

# another_leads PORT: whether every sentinel names a master other than this one, and it is one.
another_leads() {
  local number master
  for number in "${sentinels[@]}"; do
    master="$(master_of "$number")" || return 1
    [ "$master" != "$1" ] && has_role "$master" master || return 1
  done
}

failover() {
  local master
  [ "$mode" = sentinel ] || fail "only sentinels fail over: REDIS_MODE=sentinel"
  master="$(master_of "${sentinels[0]}")"
  [ "$(ask_sentinel "${sentinels[0]}" sentinel failover freshet)" = OK ] || fail "the sentinels refuse"
  wait_for "$patience_secs" another_leads "$master" || fail "the replica was not promoted"
}

case "${1:-}" in
  failover) failover ;;
  start)
    # One of several processes may be missing: starting does for them only.
    start_service
    ;;
  *) dispatch "${1:-}" ;;
esac
