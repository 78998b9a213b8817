#!/usr/bin/env bash
# A real ActiveMQ Classic with STOMP on the loopback interface.
#   activemq.sh start|stop|restart|status|crash|wipe
# `start` returns when the broker answers STOMP; `crash` kills it; `wipe` also forgets its messages.
#
# STOMP_PORT       61613     plain STOMP
# STOMP_TLS_PORT   (off)     STOMP over TLS; clients trust <folder>/tls/authority.pem, the name is localhost
# BROKER_LOGIN     admin
# BROKER_PASSCODE  admin
# STOMP_MAX_FRAME_BYTES  16777216  the broker refuses larger frames
#
# Debian and Ubuntu: apt-get install --no-install-recommends activemq default-jre-headless
set -euo pipefail
# shellcheck disable=SC2034 # lib.sh reads it
service=activemq
port="${STOMP_PORT:-61613}"
# shellcheck source=tests/services/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

tls_port="${STOMP_TLS_PORT:-}"
login="${BROKER_LOGIN:-admin}"
passcode="${BROKER_PASSCODE:-admin}"
max_frame_bytes="${STOMP_MAX_FRAME_BYTES:-16777216}"
home=/usr/share/activemq

# A certificate authority of our own and a certificate for localhost, both made once for each instance.
make_certificates() {
  local tls="$directory/tls"
  [ -e "$tls/broker.p12" ] && return
  require_command openssl openssl
  mkdir -p "$tls"
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=Test authority" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout "$tls/authority.key" -out "$tls/authority.pem"
  openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout "$tls/broker.key" -out "$tls/broker.csr"
  printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n' >"$tls/extensions"
  openssl x509 -req -days 30 -in "$tls/broker.csr" -CA "$tls/authority.pem" -CAkey "$tls/authority.key" \
    -CAcreateserial -extfile "$tls/extensions" -out "$tls/broker.pem"
  openssl pkcs12 -export -name broker -passout pass:password -in "$tls/broker.pem" -inkey "$tls/broker.key" \
    -out "$tls/broker.p12"
}

# The order of the elements matters to the broker's schema: it is the alphabet's.
write_configuration() {
  local tls_context="" tls_connector=""
  local options="transport.hbGracePeriodMultiplier=1.5&amp;wireFormat.maxFrameSize=$max_frame_bytes"
  mkdir -p "$directory/conf" "$directory/tmp"
  if [ -n "$tls_port" ]; then
    make_certificates >>"$directory/log" 2>&1
    tls_context="<sslContext><sslContext keyStore=\"file:$directory/tls/broker.p12\" keyStorePassword=\"password\"/></sslContext>"
    tls_connector="<transportConnector name=\"stomp+ssl\" uri=\"stomp+ssl://127.0.0.1:$tls_port?$options\"/>"
  fi
  cat >"$directory/conf/broker.xml" <<XML
<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="freshet-tests" dataDirectory="$directory/data"
      useJmx="false" schedulerSupport="false">
    <persistenceAdapter>
      <kahaDB directory="$directory/data/kahadb" journalMaxFileLength="32mb" preallocationStrategy="sparse_file"/>
    </persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin anonymousAccessAllowed="false">
        <users><authenticationUser username="$login" password="$passcode" groups="users,admins"/></users>
      </simpleAuthenticationPlugin>
    </plugins>
    $tls_context
    <systemUsage><systemUsage>
      <memoryUsage><memoryUsage limit="128 mb"/></memoryUsage>
      <storeUsage><storeUsage limit="1 gb"/></storeUsage>
      <tempUsage><tempUsage limit="256 mb"/></tempUsage>
    </systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:$port?$options"/>
      $tls_connector
    </transportConnectors>
  </broker>
</beans>
XML
  cat >"$directory/conf/log4j.properties" <<'PROPERTIES'
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n
PROPERTIES
}

is_ready() { stomp_answers "$port" "$login" "$passcode"; }

start_service() {
  require_command java default-jre-headless
  [ -e "$home/bin/activemq.jar" ] || fail "ActiveMQ is not installed; try: apt-get install --no-install-recommends activemq"
  require_free "$port"
  [ -z "$tls_port" ] || require_free "$tls_port"
  mkdir -p "$directory"
  write_configuration
  # The serial collector and the first compiler alone: a test broker starts sooner and leaves the cores to the tests.
  launch "$directory/pid" "$directory/log" java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    "-Djava.io.tmpdir=$directory/tmp" "-Dlog4j.configuration=file:$directory/conf/log4j.properties" \
    "-Dactivemq.home=$home" "-Dactivemq.base=$directory" "-Dactivemq.conf=$directory/conf" \
    "-Dactivemq.data=$directory/data" "-Dactivemq.classpath=$directory/conf" \
    -jar "$home/bin/activemq.jar" start "xbean:file:$directory/conf/broker.xml"
  wait_until_ready "$directory/pid" "$directory/log" is_ready
  echo "activemq: stomp://127.0.0.1:$port${tls_port:+ and stomp+ssl://localhost:$tls_port}"
}

stop_service() { end "$directory/pid"; }
crash_service() { crash "$directory/pid"; }

dispatch "${1:-}"
