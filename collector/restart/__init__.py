"""What a restart goes on from: kept state, recovery, snapshots."""
