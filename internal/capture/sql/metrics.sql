CREATE OR REPLACE FUNCTION tutti.metric_records(OUT name pg_catalog.text,
  OUT labels pg_catalog.jsonb, OUT value pg_catalog.float8)
RETURNS SETOF pg_catalog.record LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT split_part(l, E'\t', 2), split_part(l, E'\t', 3)::jsonb, split_part(l, E'\t', 4)::float8
    FROM string_to_table(pg_read_file('{{file}}', 0, {{bytes_max}}, true), E'\n') l
    WHERE split_part(l, E'\t', 1) IN ('-', encode(convert_to(current_database(), 'UTF8'), 'hex'))
$tutti$;
CREATE OR REPLACE VIEW tutti.metrics AS
  SELECT r.name, r.labels, r.value FROM tutti.metric_records() r;
CREATE OR REPLACE VIEW tutti.conflicts AS
  SELECT r.labels OPERATOR(pg_catalog.->>) 'schema' AS schemaname, r.labels OPERATOR(pg_catalog.->>) 'table' AS relname,
    r.labels OPERATOR(pg_catalog.->>) 'cause' AS cause, r.value::pg_catalog.int8 AS transactions
  FROM tutti.metric_records() r WHERE r.name OPERATOR(pg_catalog.=) 'tutti_conflicts_total';
GRANT EXECUTE ON FUNCTION tutti.metric_records TO PUBLIC;
GRANT SELECT ON tutti.metrics, tutti.conflicts TO PUBLIC;
