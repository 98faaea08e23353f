#!/usr/bin/env bash
# Kafka's kafka-delegation-tokens.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/delegation-tokens" "$@"
