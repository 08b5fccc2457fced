#!/bin/sh
# Prepares this checkout for docker compose: the secrets in .env, and a catalogue of its own. It changes nothing that is there, so it may run again at any time.
set -eu
cd "$(dirname "$0")/.."

umask 077
touch .env
# A last line without its end would swallow the next one.
[ -z "$(tail -c 1 .env)" ] || echo >> .env
names="REDIS_PASSWORD POSTGRES_PASSWORD OPERATOR_TOKEN INTERNAL_SECRET CREDENTIALS_SECRET"
# A deployment that has run without AUTH_SECRET keeps the secret in its database; a new one would end all sessions and second factors.
grep -q "^POSTGRES_PASSWORD=" .env || names="$names AUTH_SECRET"
for name in $names; do
  grep -q "^$name=" .env || echo "$name=$(openssl rand -hex 24)" >> .env
done
grep -q "^SLUICE_VERSION=" .env || echo "SLUICE_VERSION=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)" >> .env

umask 022
mkdir -p catalogue
[ -e catalogue/catalogue.yaml ] || cp catalogue.yaml catalogue/
