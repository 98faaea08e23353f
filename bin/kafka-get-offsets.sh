#!/usr/bin/env bash
# Kafka's kafka-get-offsets.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/get-offsets" "$@"
