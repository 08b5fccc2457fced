#!/bin/sh
# Replaces the running containers by those of another version, with no ingress ever without workers of its own version: sh infra/upgrade.sh 0.3.0. Workers of both
# versions run until the old ingresses have finished. Rolls back in the same way. Stops at the first failure, with the old containers still running.
set -eu
cd "$(dirname "$0")/.."
export SLUICE_VERSION="$1"

containers() { docker compose ps --quiet "$1"; }
# Starts as many new containers of a service as it has, beside them, and waits until they are healthy.
add() {
  count=$(containers "$1" | wc -l)
  docker compose up --detach --no-deps --no-recreate --wait --scale "$1=$((count * 2))" "$1"
}
# Each may take its stop_grace_period to finish what runs.
remove() { [ $# -eq 0 ] || { docker stop "$@" && docker rm "$@"; }; }

docker image inspect "sluice:$SLUICE_VERSION" > /dev/null || SLUICE_COMMIT=$(git rev-parse HEAD) docker compose build ingress
workers=$(docker compose config --services | grep '^worker-')
old_ingresses=$(containers ingress)
old_workers=$(for worker in $workers; do containers "$worker"; done)

for worker in $workers; do add "$worker"; done
add ingress
remove $old_ingresses
remove $old_workers
docker compose up --detach --no-deps --wait control simulator
docker compose exec --no-TTY proxy nginx -c /etc/sluice/nginx.conf -s reload

sed -i "s/^SLUICE_VERSION=.*/SLUICE_VERSION=$SLUICE_VERSION/" .env
