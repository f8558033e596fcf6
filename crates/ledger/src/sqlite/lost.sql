-- Losses that the operator accepted: events `first` to `last` are gone, and `seq` represents the loss in the log.
CREATE TABLE IF NOT EXISTS lost (
  seq INTEGER NOT NULL PRIMARY KEY,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  wall_ms INTEGER NOT NULL
) STRICT;
