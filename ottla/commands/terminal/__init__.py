"""What commands share: tables, options, failures, connections."""
