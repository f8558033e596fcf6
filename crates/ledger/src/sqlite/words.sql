-- The search index of streams and events: their words, without the texts that the words come from. It is a cache.
-- `rowid` is the `created_seq` of a stream, or the `seq` of an event; `subject` is the kind of the stream.
CREATE VIRTUAL TABLE stream_words USING fts5 (
  subject, ids, name, words, parts,
  content = '', contentless_delete = 1, detail = 'column', tokenize = 'ascii'
);
CREATE VIRTUAL TABLE event_words USING fts5 (
  subject, words,
  content = '', contentless_delete = 1, detail = 'column', tokenize = 'ascii'
);

-- Streams that are not in the index yet.
CREATE TABLE unindexed (id TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
