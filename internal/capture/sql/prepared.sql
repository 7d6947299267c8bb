DO $tutti$ DECLARE f pg_catalog.regprocedure; a pg_catalog.text;
BEGIN
  SELECT p.oid INTO f FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.<) 12000::pg_catalog.oid AND p.proname OPERATOR(pg_catalog.=) 'pg_prepared_statement';
  IF FOUND THEN
    EXECUTE pg_catalog.concat('REVOKE ALL ON FUNCTION ', f, ' FROM PUBLIC');
    EXECUTE pg_catalog.concat('ALTER FUNCTION ', f, ' RENAME TO tutti_prepared_statement');
    DELETE FROM pg_catalog.pg_init_privs i WHERE i.objoid OPERATOR(pg_catalog.=) f::pg_catalog.oid AND i.classoid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid;
    INSERT INTO pg_catalog.pg_init_privs SELECT p.oid, 'pg_catalog.pg_proc'::pg_catalog.regclass, 0, 'i', p.proacl FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.=) f::pg_catalog.oid; -- nothing to dump
  END IF;
  a := pg_catalog.pg_get_function_arguments('pg_catalog.tutti_prepared_statement'::pg_catalog.regproc);
  EXECUTE pg_catalog.concat('CREATE OR REPLACE FUNCTION pg_catalog.pg_prepared_statement(', a, ') RETURNS SETOF pg_catalog.record LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ''
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT * FROM pg_catalog.tutti_prepared_statement() p WHERE NOT starts_with(p.name, ''''tutti '''');
END ''');
  SET LOCAL allow_system_table_mods = on;
  EXECUTE pg_catalog.concat('CREATE OR REPLACE VIEW pg_catalog.pg_prepared_statements AS SELECT ',
    (SELECT pg_catalog.string_agg(pg_catalog.concat('p.', pg_catalog.quote_ident(x.attname)), ', ' ORDER BY x.attnum) FROM pg_catalog.pg_attribute x
      WHERE x.attrelid OPERATOR(pg_catalog.=) 'pg_catalog.pg_prepared_statements'::pg_catalog.regclass::pg_catalog.oid AND x.attnum OPERATOR(pg_catalog.>) 0::pg_catalog.int2),
    ' FROM pg_catalog.pg_prepared_statement() p');
  RESET allow_system_table_mods;
END $tutti$;
