#!/usr/bin/env bash
# Kafka's kafka-reassign-partitions.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/reassign-partitions" "$@"
