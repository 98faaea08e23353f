#!/usr/bin/env bash
# Kafka's kafka-consumer-offset-checker.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/consumer-offset-checker" "$@"
