#!/bin/sh
# Starts Ceph's S3 gateway with a cluster of one monitor and one storage daemon in memory, for tests/stores/test_radosgw.py.
#
#   radosgw.sh FOLDER PORT ACCESS_KEY SECRET_KEY
#
# Needs root and Debian's packages: apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-base
# Prints "ready" when the gateway answers, and runs until it is ended by SIGTERM; everything lies in FOLDER. Ends with
# an error when one of them has ended or a step takes longer than two minutes: FOLDER/start.log says why.
set -eu
folder=$1 port=$2 access_key=$3 secret_key=$4
monitor=$((port + 1))
cluster=$(cat /proc/sys/kernel/random/uuid)

cat > "$folder/ceph.conf" <<END
[global]
fsid = $cluster
mon host = [v1:127.0.0.1:$monitor/0]
mon initial members = a
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
mon allow pool size one = true
mon data = $folder/mon
osd data = $folder/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd crush chooseleaf type = 0
mon max pg per osd = 1000
mon data avail crit = 0
mon data avail warn = 0
rgw init timeout = 120
run dir = $folder
log file = $folder/\$name.log
admin socket = $folder/\$name.asok
pid file =
END

export CEPH_CONF="$folder/ceph.conf"
mkdir "$folder/mon" "$folder/osd"
started=""
trap 'kill $started 2>/dev/null; wait' EXIT
trap 'exit 0' TERM INT

monmaptool --create --fsid "$cluster" --addv a "[v1:127.0.0.1:$monitor]" "$folder/monmap" > "$folder/start.log"
ceph-mon --mkfs -i a --monmap "$folder/monmap" >> "$folder/start.log" 2>&1
ceph-mon -f -i a >> "$folder/start.log" 2>&1 &
started="$!"
ceph-osd --mkfs -i 0 >> "$folder/start.log" 2>&1
ceph --connect-timeout 120 osd new "$(cat "$folder/osd/fsid")" >> "$folder/start.log" 2>&1
ceph --connect-timeout 120 osd crush add osd.0 1.0 host=localhost root=default >> "$folder/start.log" 2>&1
ceph-osd -f -i 0 >> "$folder/start.log" 2>&1 &
daemon=$!
started="$daemon $started"
tries=0
until ceph --connect-timeout 120 osd stat 2>> "$folder/start.log" | grep -q "1 up"; do
    kill -0 $daemon
    tries=$((tries + 1))
    [ $tries -lt 60 ]
    sleep 1
done
timeout 120 radosgw-admin user create --uid=test --display-name=test --access-key="$access_key" --secret="$secret_key" \
    >> "$folder/start.log" 2>&1
radosgw -f -n client.rgw --rgw-frontends="beast endpoint=127.0.0.1:$port" >> "$folder/start.log" 2>&1 &
gateway=$!
started="$gateway $started"
until curl --silent --output /dev/null "http://127.0.0.1:$port/"; do
    kill -0 $gateway || exit 1
    sleep 0.2
done
echo ready
wait $gateway
