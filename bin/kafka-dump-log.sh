#!/usr/bin/env bash
# Kafka's kafka-dump-log.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/dump-log" "$@"
