-- Streams whose first event is not after this one came from another home. At most one row.
CREATE TABLE imported (through INTEGER NOT NULL) STRICT;
