#!/usr/bin/env bash
# Kafka's kafka-configs.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/configs" "$@"
