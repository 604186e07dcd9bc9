"""Sessions of a running service, judged by models once they have ended. Loaded where `judges.endpoint` is set, and nowhere else."""
