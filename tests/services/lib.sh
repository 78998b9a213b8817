# shellcheck shell=bash
# What the scripts of this folder share: where state lies, how a process is started, found again and ended.
# A script sources it after it has set `service` (its name) and `port` (which makes the instance unique).
#
# Everything of one instance lies in one folder, so that instances run side by side and `wipe` forgets one whole:
#   $FRESHET_SERVICES/<service>-<port>/{pid,log,...}

directory="${FRESHET_SERVICES:-${XDG_CACHE_HOME:-$HOME/.cache}/freshet/services}/${service:?}-${port:?}"
# How long a service may take to start or to stop, in seconds. A busy machine needs minutes for a cold JVM.
patience_secs="${FRESHET_SERVICES_PATIENCE_SECS:-120}"

# Debian keeps servers where not everyone looks for programs.
PATH="$PATH:/usr/sbin"

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# require_command COMMAND PACKAGE: ends the script with the package to install when the command is missing.
require_command() {
  command -v "$1" >/dev/null 2>&1 || fail "$1 is not installed; try: apt-get install --no-install-recommends $2"
}

# listening PORT: whether something on the loopback interface accepts connections there.
listening() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

not_listening() { ! listening "$1"; }

# require_free PORT: ends the script when another process has the port. A process that was killed may hold its
# port for a moment longer than its number.
require_free() { wait_for 5 not_listening "$1" || fail "port $1 is in use by another process"; }

# running PID_FILE: whether the process that `launch` recorded still lives. The start time of the process stands
# beside its number, so that a number which the kernel has given to another process is not mistaken for ours. No time
# stands there when the process had ended before it could be read.
running() {
  local number started
  [ -s "$1" ] && read -r number started <"$1" && [ -n "$started" ] && [ "$(start_time "$number")" = "$started" ]
}

# start_time NUMBER: when the process started, in clock ticks since boot; nothing for one that is gone or dead.
# The name of the command, in parentheses, may hold blanks, so fields count from the last parenthesis.
start_time() {
  local line fields
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
  read -ra fields <<<"${line##*) }"
  [ "${fields[0]}" = Z ] || printf '%s' "${fields[19]}"
}

# launch PID_FILE LOG COMMAND...: starts the command in a process group of its own, cut off from the terminal.
launch() {
  local pid_file=$1 log=$2 number
  shift 2
  setsid "$@" </dev/null >>"$log" 2>&1 &
  number=$!
  printf '%s %s\n' "$number" "$(start_time "$number")" >"$pid_file"
}

# signal SIGNAL PID_FILE: to the recorded process only; services pass it on to their children.
signal() {
  local number
  read -r number _ <"$2" && kill "-$1" "$number" 2>/dev/null
}

# wait_for SECONDS COMMAND...: polls until the command succeeds; fails when the time is over.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.1
  done
}

ended() { ! running "$1"; }

# succeeds_or_ended PID_FILE COMMAND...: whether there is nothing more to wait for.
succeeds_or_ended() { "${@:2}" 2>/dev/null || ended "$1"; }

# wait_until_ready PID_FILE LOG COMMAND...: waits for a service that was just launched. Its log is shown when it
# dies or takes too long.
wait_until_ready() {
  local pid_file=$1 log=$2
  shift 2
  if ! wait_for "$patience_secs" succeeds_or_ended "$pid_file" "$@" || ended "$pid_file"; then
    tail -n 25 "$log" >&2
    ! ended "$pid_file" || fail "ended before it became ready; its log is $log"
    fail "did not become ready within $patience_secs s; its log is $log"
  fi
}

# end PID_FILE: asks the process to stop, and kills its whole group when it does not.
end() {
  local number
  if running "$1"; then
    read -r number _ <"$1"
    signal TERM "$1" || true
    if ! wait_for "$patience_secs" ended "$1"; then kill -KILL -- "-$number" 2>/dev/null || true; fi
  fi
  rm -f "$1"
}

# crash PID_FILE: ends the process group at once, as a power failure would.
crash() {
  local number
  if running "$1"; then
    read -r number _ <"$1"
    kill -KILL -- "-$number" 2>/dev/null || true
    wait_for "$patience_secs" ended "$1" || fail "process $number survives KILL"
  fi
  rm -f "$1"
}

# stomp_answers PORT LOGIN PASSCODE: whether a STOMP broker says CONNECTED, which is more than an open port.
stomp_answers() {
  local command=""
  exec 9<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'CONNECT\naccept-version:1.2\nhost:/\nlogin:%s\npasscode:%s\n\n\0' "$2" "$3" >&9
  IFS= read -r -t 5 -u 9 command || true
  exec 9>&-
  [ "${command%$'\r'}" = CONNECTED ]
}

# dispatch VERB: runs one of the verbs that every service has, by the functions start_service, stop_service,
# crash_service and is_ready of the script.
dispatch() {
  case "${1:-}" in
    start)
      if running "$directory/pid"; then
        wait_until_ready "$directory/pid" "$directory/log" is_ready
      else
        start_service
      fi
      ;;
    stop) stop_service ;;
    crash) crash_service ;;
    restart)
      stop_service
      start_service
      ;;
    status)
      if running "$directory/pid" && is_ready 2>/dev/null; then
        echo "running"
      else
        echo "stopped"
        exit 3
      fi
      ;;
    wipe)
      stop_service
      rm -rf "$directory"
      ;;
    *)
      echo "usage: $(basename "$0") start|stop|restart|status|crash|wipe" >&2
      exit 2
      ;;
  esac
}
