#!/usr/bin/env bash
# Kafka's kafka-console-consumer.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/console-consumer" "$@"
