-- The log. `seq` is never reused, even after its event was archived. Each event refers to the previous one
-- of its stream, and the stream to its last one. An index would scatter the entries of one batch over as many pages as
-- the batch has streams, and every commit would write all of these pages.
CREATE TABLE event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  v INTEGER NOT NULL,
  wall_ms INTEGER NOT NULL,
  mono_ms INTEGER NOT NULL,
  actor TEXT NOT NULL,
  data TEXT NOT NULL,
  -- A checksum of all columns before it.
  sum INTEGER NOT NULL,
  -- The `seq` of the stream's previous event, or 0.
  prev INTEGER NOT NULL
) STRICT;

-- One row per stream. `kind` is the part of `id` before the slash; `projection` is a cache, and `projection_sum` its checksum.
CREATE TABLE stream (
  id TEXT NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  created_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  version INTEGER NOT NULL,
  open INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL,
  projection TEXT,
  projection_sum INTEGER,
  archive_file TEXT,
  archive_offset INTEGER,
  archive_bytes INTEGER,
  archive_sum TEXT
) STRICT;
CREATE INDEX stream_listing ON stream (kind, open, created_seq);
CREATE INDEX stream_age ON stream (created_seq);
CREATE INDEX stream_open ON stream (id) WHERE open = 1;

-- Pending effects (without a due time) and timers of a stream.
CREATE TABLE pending_items (
  stream TEXT NOT NULL REFERENCES stream (id),
  key TEXT NOT NULL,
  kind TEXT NOT NULL,
  due_mono_ms INTEGER,
  PRIMARY KEY (stream, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshot (
  stream TEXT NOT NULL PRIMARY KEY REFERENCES stream (id),
  version INTEGER NOT NULL,
  fold_version INTEGER NOT NULL,
  data TEXT NOT NULL
) STRICT;

CREATE TABLE idempotency (
  key TEXT NOT NULL PRIMARY KEY,
  reply TEXT NOT NULL
) STRICT;

-- Every kind and version of event that was ever recorded, and the version of the program that first recorded it.
CREATE TABLE kind (
  kind TEXT NOT NULL,
  v INTEGER NOT NULL,
  software TEXT NOT NULL,
  PRIMARY KEY (kind, v)
) STRICT, WITHOUT ROWID;
