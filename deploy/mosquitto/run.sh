#!/bin/sh
# Runs mosquitto for Braid: with a user of Braid's own, and with the access lists that the manager keeps, which it
# reads again whenever they change. The password comes from the environment.
set -eu
umask 077
: "${BROKER_PASSWORD:?is what Braid itself connects with}"
access="${ACCESS:-/access}" run="${RUN:-/run/braid}" data="${DATA:-/mosquitto/data}"
tenants="${TENANTS:-/tenants}" address="${ADDRESS:-0.0.0.0}" port="${PORT:-1883}"
here="$(dirname "$0")"

# No password is an argument of a process.
printf 'braid:%s\n' "$BROKER_PASSWORD" > "$run/passwords"
mosquitto_passwd -U "$run/passwords"
unset BROKER_PASSWORD
sed -e "s|@ACCESS@|$access|" -e "s|@RUN@|$run|" -e "s|@DATA@|$data|" -e "s|@ADDRESS@|$address|" \
    -e "s|@PORT@|$port|" -e "s|@TENANTS@|$tenants|" "$here/mosquitto.conf" > "$run/mosquitto.conf"

lists() {
    cksum "$access/acl" "$access/passwords"
}
# The first process of a container is not ended by a signal that it does not handle.
trap 'exit 0' TERM INT
# The manager makes them once it leads. Mosquitto does not start without.
until lists > /dev/null 2>&1; do
    sleep 1 &
    wait "$!"
done

# As many connections as the system allows: with a shell's default tenants could take all.
ulimit -n "$(ulimit -H -n)"
known="$(lists)"
mosquitto -c "$run/mosquitto.conf" &
broker=$!
trap 'kill -TERM "$broker"' TERM INT
while kill -0 "$broker" 2> /dev/null; do
    sleep 1 &
    wait "$!" || true
    found="$(lists)" || continue
    if [ "$found" != "$known" ]; then
        known="$found"
        kill -HUP "$broker" 2> /dev/null || true
    fi
done
wait "$broker"
