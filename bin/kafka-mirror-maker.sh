#!/usr/bin/env bash
# Kafka's kafka-mirror-maker.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/mirror-maker" "$@"
