#!/usr/bin/env bash
# A real RabbitMQ with its STOMP plugin, as a node of its own beside (and without) the system's service.
#   rabbitmq.sh start|stop|restart|status|crash|wipe
# `start` returns when the broker answers STOMP; `crash` kills it; `wipe` also forgets its messages.
#
# STOMP_PORT       61614         plain STOMP; AMQP is off
# DIST_PORT        STOMP_PORT+1  the node's own port for Erlang distribution
# EPMD_PORT        STOMP_PORT+2  a port mapper of our own, so that the system's is neither used nor started
# BROKER_LOGIN     admin
# BROKER_PASSCODE  admin
#
# Debian and Ubuntu: apt-get install --no-install-recommends rabbitmq-server
set -euo pipefail
# shellcheck disable=SC2034 # lib.sh reads it
service=rabbitmq
port="${STOMP_PORT:-61614}"
# shellcheck source=tests/services/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

distribution_port="${DIST_PORT:-$((port + 1))}"
mapper_port="${EPMD_PORT:-$((port + 2))}"
login="${BROKER_LOGIN:-admin}"
passcode="${BROKER_PASSCODE:-admin}"
# Debian's command in /usr/sbin changes to the system's user and folders; this is the program behind it.
program=/usr/lib/rabbitmq/bin/rabbitmq-server

write_configuration() {
  mkdir -p "$directory/mnesia"
  # The default limit of free disk space would block publishers on a small test machine.
  cat >"$directory/rabbitmq.conf" <<CONF
listeners.tcp = none
stomp.listeners.tcp.1 = 127.0.0.1:$port
default_user = $login
default_pass = $passcode
disk_free_limit.absolute = 10MB
log.file = false
log.console = true
log.console.level = info
CONF
  echo '[rabbitmq_stomp].' >"$directory/enabled_plugins"
}

is_ready() { stomp_answers "$port" "$login" "$passcode"; }

mapper_is_ready() { listening "$mapper_port"; }

start_service() {
  [ -x "$program" ] || fail "RabbitMQ is not installed; try: apt-get install --no-install-recommends rabbitmq-server"
  require_command epmd erlang-base
  require_free "$port"
  require_free "$distribution_port"
  mkdir -p "$directory"
  write_configuration
  if ! running "$directory/mapper.pid"; then
    require_free "$mapper_port"
    launch "$directory/mapper.pid" "$directory/mapper.log" \
      epmd -port "$mapper_port" -address 127.0.0.1
    wait_until_ready "$directory/mapper.pid" "$directory/mapper.log" mapper_is_ready
  fi
  # The home folder holds the node's cookie; an environment file of the system must not be read.
  launch "$directory/pid" "$directory/log" env \
    HOME="$directory" \
    ERL_EPMD_PORT="$mapper_port" ERL_EPMD_ADDRESS=127.0.0.1 \
    RABBITMQ_NODENAME="freshet-$port@localhost" \
    RABBITMQ_DIST_PORT="$distribution_port" \
    RABBITMQ_CONF_ENV_FILE="$directory/no-such-file" \
    RABBITMQ_CONFIG_FILE="$directory/rabbitmq.conf" \
    RABBITMQ_ADVANCED_CONFIG_FILE="$directory/no-such-file.config" \
    RABBITMQ_ENABLED_PLUGINS_FILE="$directory/enabled_plugins" \
    RABBITMQ_MNESIA_BASE="$directory/mnesia" \
    RABBITMQ_LOG_BASE="$directory" \
    RABBITMQ_FEATURE_FLAGS_FILE="$directory/feature_flags" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-start_epmd false -kernel inet_dist_use_interface {127,0,0,1} +S 2:2" \
    "$program"
  wait_until_ready "$directory/pid" "$directory/log" is_ready
  echo "rabbitmq: stomp://127.0.0.1:$port"
}

stop_service() {
  end "$directory/pid"
  end "$directory/mapper.pid"
}

crash_service() {
  crash "$directory/pid"
  crash "$directory/mapper.pid"
}

dispatch "${1:-}"
