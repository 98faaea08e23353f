#!/usr/bin/env bash
# Kafka's kafka-replica-verification.sh, by Ottla's command of the same flags.
exec "$(dirname "$(readlink -f "$0")")/../scripts/verify-replicas" "$@"
