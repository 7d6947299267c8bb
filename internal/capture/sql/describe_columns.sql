-- The columns of tables.
atts AS (
  SELECT * FROM pg_attribute WHERE attrelid = ANY (wanted) AND attnum > 0 AND NOT attisdropped
)
