"""What Kafka's command-line tools of 3.9 print, line by line, for scripts that read it. No I/O."""
