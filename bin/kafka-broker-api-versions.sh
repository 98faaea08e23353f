#!/usr/bin/env bash
# Kafka's kafka-broker-api-versions.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/broker-api-versions" "$@"
