#!/usr/bin/env bash
# Kafka's kafka-transactions.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/transactions" "$@"
