"""The published data set of CORE's authors as spec documents."""
