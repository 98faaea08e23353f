#!/usr/bin/env bash
# Kafka's zookeeper-shell.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/zookeeper-shell" "$@"
