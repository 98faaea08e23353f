"""What a test of a cluster needs: a cluster to start and harm, and a checker of what it promised."""
