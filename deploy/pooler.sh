#!/bin/sh
# Starts PgBouncer with the password from the environment, which it wants in a file of its own format.
set -eu
umask 077
printf '"crm" "%s"\n' "$DATABASE_PASSWORD" > /tmp/users.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
