#!/usr/bin/env bash
# Kafka's kafka-topics.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/topics" "$@"
