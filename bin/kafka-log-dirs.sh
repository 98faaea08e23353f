#!/usr/bin/env bash
# Kafka's kafka-log-dirs.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/log-dirs" "$@"
