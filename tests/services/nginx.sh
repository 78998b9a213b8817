#!/usr/bin/env bash
# A real nginx as a reverse proxy on the loopback interface, as unhelpful to event streams as its defaults are:
# it buffers answers and compresses them, event streams included. What passes it in time does so by its own headers.
#   nginx.sh start|stop|restart|status|crash|wipe
#
# PROXY_PORT  8401            where it listens
# UPSTREAM    127.0.0.1:8080  where requests go
#
# Debian and Ubuntu: apt-get install --no-install-recommends nginx-light
set -euo pipefail
# shellcheck disable=SC2034 # lib.sh reads it
service=nginx
port="${PROXY_PORT:-8401}"
# shellcheck source=tests/services/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

upstream="${UPSTREAM:-127.0.0.1:8080}"

write_configuration() {
  local folder="$directory/spool"
  mkdir -p "$folder"
  cat >"$directory/nginx.conf" <<CONF
daemon off;
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

is_ready() { listening "$port"; }

start_service() {
  require_command nginx nginx-light
  require_free "$port"
  mkdir -p "$directory"
  write_configuration
  nginx -t -q -p "$directory" -e "$directory/log" -c "$directory/nginx.conf"
  launch "$directory/pid" "$directory/log" nginx -p "$directory" -e "$directory/log" -c "$directory/nginx.conf"
  wait_until_ready "$directory/pid" "$directory/log" is_ready
  echo "nginx: http://127.0.0.1:$port -> $upstream"
}

stop_service() { end "$directory/pid"; }
crash_service() { crash "$directory/pid"; }

dispatch "${1:-}"
