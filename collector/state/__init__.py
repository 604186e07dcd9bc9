"""The journal: what receivers acknowledged, on disk, so that a process that ends loses nothing.

    segment, segment_writer, segment_reading   one file: its format, how it is written, how it is read
    journal_files                              the files of a folder, those of others included
    records, heads                             what records hold, and what each file begins with
    journal, group_commit, backlog             appends; waits for the disk; reads again what the process has just written
    journal_reader                             what an earlier process has left
    snapshot                                   the state of a process at one moment, in a file of its own

A full disk: `segment_writer` says by `DISK_FULL` which errors mean it, and cuts off what was written of a record. `journal` deletes its
oldest files (`give_up_oldest`) and tries again. Where that does not help, a request is refused or judged without a record
(`state.on_error`). `collector.restart.snapshot_process` says that a snapshot did not fit, and the oldest files go for it as well.
"""
