#!/usr/bin/env bash
# Kafka's zookeeper-security-migration.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/zookeeper-security-migration" "$@"
