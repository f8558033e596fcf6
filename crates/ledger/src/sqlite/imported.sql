-- The last event of an import: streams that began at or before it came from another home. Has at most one row.
CREATE TABLE imported (through INTEGER NOT NULL) STRICT;
