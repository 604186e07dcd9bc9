"""Guards of this process, which ask no service: what the extras `local` and `sdk` bring."""
