#!/usr/bin/env bash
# A real nginx on the loopback interface. In front of several instances it has the configuration that docker/ ships.
# In front of one it is as unhelpful to event streams as its defaults are: it buffers answers and compresses them,
# event streams included. What passes it in time does so by its own headers.
#   nginx.sh start|stop|restart|status|crash|wipe
#   nginx.sh reload   as after a change of the configuration; open streams stay
#
# PROXY_PORT  8401            where it listens
# UPSTREAM    127.0.0.1:8080  the one instance, where requests go by the defaults
# UPSTREAMS   (none)          the instances, with blanks between, where requests go by docker/nginx.conf
#
# Debian and Ubuntu: apt-get install --no-install-recommends nginx-light
set -euo pipefail
# shellcheck disable=SC2034 # lib.sh reads it
service=nginx
port="${PROXY_PORT:-8401}"
script_folder="$(dirname "$(readlink -f "$0")")"
# shellcheck source=tests/services/lib.sh
. "$script_folder/lib.sh"

upstream="${UPSTREAM:-127.0.0.1:8080}"
upstreams="${UPSTREAMS:-}"
shipped="$script_folder/../../docker/nginx.conf"

# What is shipped, but for addresses and folders: the list of instances becomes ours.
write_shipped() {
  mkdir -p "$directory/run"
  awk -v upstreams="$upstreams" '
    $1 != "server" || NF < 3 { print; next }
    {
      if (written++) next
      options = ""
      for (field = 3; field <= NF; field++) options = options " " $field
      count = split(upstreams, address, " ")
      for (i = 1; i <= count; i++) print "        server " address[i] options
    }' "$shipped" |
    sed -e "s|listen 8080|listen 127.0.0.1:$port|" -e "s|/run/nginx|$directory/run|" >"$directory/nginx.conf"
}

write_unhelpful() {
  local folder="$directory/spool"
  mkdir -p "$folder"
  cat >"$directory/nginx.conf" <<CONF
worker_processes 1;
pid $directory/nginx.pid;
error_log $directory/log warn;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
  gzip on;
  gzip_proxied any;
  gzip_min_length 1;
  gzip_types text/event-stream application/json;
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass http://$upstream;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host \$host;
      proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto \$scheme;
    }
  }
}
CONF
}

write_configuration() {
  if [ -n "$upstreams" ]; then write_shipped; else write_unhelpful; fi
  nginx -t -q -p "$directory" -e "$directory/log" -c "$directory/nginx.conf"
}

is_ready() { listening "$port"; }

start_service() {
  require_command nginx nginx-light
  require_free "$port"
  mkdir -p "$directory"
  write_configuration
  launch "$directory/pid" "$directory/log" \
    nginx -p "$directory" -e "$directory/log" -c "$directory/nginx.conf" -g "daemon off;"
  wait_until_ready "$directory/pid" "$directory/log" is_ready
  echo "nginx: http://127.0.0.1:$port -> ${upstreams:-$upstream}"
}

# The processes that serve. The old ones of a reload that keep streams say that they are shutting down.
workers() {
  local master children number
  read -r master _ <"$directory/pid"
  read -ra children <"/proc/$master/task/$master/children"
  for number in "${children[@]}"; do
    if tr '\0' ' ' <"/proc/$number/cmdline" | grep -q '^nginx: worker process *$'; then echo "$number"; fi
  done
}

others_work() {
  local now
  now="$(workers)" && [ -n "$now" ] && ! grep -qxF "$1" <<<"$now"
}

reload() {
  local before
  running "$directory/pid" || fail "it is not running"
  before="$(workers)"
  write_configuration
  signal HUP "$directory/pid"
  wait_for "$patience_secs" others_work "$before" || fail "it did not take the configuration"
}

stop_service() { end "$directory/pid"; }
crash_service() { crash "$directory/pid"; }

case "${1:-}" in
  reload) reload ;;
  *) dispatch "${1:-}" ;;
esac
