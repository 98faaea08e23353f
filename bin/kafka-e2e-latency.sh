#!/usr/bin/env bash
# Kafka's kafka-e2e-latency.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/end-to-end-latency" "$@"
