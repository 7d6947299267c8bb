CREATE OR REPLACE FUNCTION tutti.native_{{name}}({{types}}) RETURNS pg_catalog.{{returns}} LANGUAGE internal VOLATILE STRICT PARALLEL RESTRICTED AS '{{native}}';
ALTER FUNCTION tutti.native_{{name}}({{types}}) OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.native_{{name}}({{types}}) FROM PUBLIC;
