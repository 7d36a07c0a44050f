#!/bin/bash
# Runs once, when the database server's volume is empty: an owner for Sluice's database and one for
# Temporal's. Neither is a superuser, whom row-level security wouldn't bind; Sluice's makes the
# roles that its migrations need, and the logins that its programs have.
set -euo pipefail
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
	-v sluice="$SLUICE_DATABASE_PASSWORD" -v temporal="$SLUICE_TEMPORAL_PASSWORD" <<'SQL'
CREATE ROLE sluice LOGIN CREATEROLE PASSWORD :'sluice';
CREATE DATABASE sluice OWNER sluice;
CREATE ROLE temporal LOGIN CREATEDB PASSWORD :'temporal';
SQL
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname sluice -c 'CREATE EXTENSION vector'
