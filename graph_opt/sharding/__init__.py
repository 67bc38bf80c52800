"""Tables that are sharded across ranks: where rows are, how they start, and how they travel.

Rows by key. What saves, loads, exports or assigns rows knows a table, and a slot of one, as rows by
key (`keyed_rows`): which rank has a key, and blocks of this rank's rows. A new kind of table has to
answer no more. Dumps (`saving`) and checkpoints (`ranks_together`) take blocks of all ranks to rank
0, which writes. They run a few small functions, eagerly or as nodes that a session's graph gets
once (`compat/array_steps`). A rank that fails goes on to send what the others wait for, until all
agree that it has (`agreement`).

Savers. One rank alone calls `tf.train.Saver`. A step of it that reads or assigns sharded variables
is done by `table_savers` instead: tables in blocks (`whole_tables`), and the rest of the step
without them (`saver_nodes`).

- A thread of each rank serves its rows (`row_server`, `row_service`) as of a moment that all ranks
  know: after k steps with messages of the n-th session (`held_sessions`). A rank that is ahead
  waits in step k + 1 for the others' gradients, so it has not updated its rows; what optimizers
  write earlier in a step is made to wait for a message (`early_writes`).
- Before their first step with messages, ranks tell rank 0 from which checkpoint they have restored,
  and it tells all (`restored_agreement`, `restored_rows`).
- Connections (`row_channel`) are bounded, and those that ask for nothing make room for others. A
  rank that closes its session serves until all have.

Errors of one rank become errors of all in `guard`, which sees every step of a session that sends
messages. Whether a step that fails has sent anything is counted by the op that sends messages
(ops_src/exchange/sent_messages.h). What may not depend on messages, since these may hang, travels
through a `Store`: later errors, the ends of programs, what each rank is doing (`rank_watch`), and
the plans that ranks compare (`plan_digest`). One cause is agreed upon there, and Horovod is shut
down; what then fails on other ranks is replaced by the cause (`message_errors`).
"""
