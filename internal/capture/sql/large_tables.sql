CREATE TABLE IF NOT EXISTS tutti.large (object pg_catalog.oid, what pg_catalog.int2, page pg_catalog.int4, last pg_catalog.int4, owner pg_catalog.text, data pg_catalog.bytea);
ALTER TABLE tutti.large OWNER TO tutti_owner;
REVOKE ALL ON tutti.large FROM PUBLIC;
CREATE SEQUENCE IF NOT EXISTS tutti.large_n MINVALUE 0 MAXVALUE {{oids}} CYCLE;
ALTER SEQUENCE tutti.large_n OWNER TO tutti_owner;
CREATE OR REPLACE FUNCTION tutti.large_oid() RETURNS pg_catalog.oid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE o oid; m int8;
BEGIN
  SELECT mod(s.member, {{classes}}) INTO m FROM tutti.sequencing s;
  LOOP
    o := (16384 + nextval('tutti.large_n') * {{classes}} + coalesce(m, 0))::oid;
    IF NOT EXISTS (SELECT FROM pg_largeobject_metadata l WHERE l.oid = o) THEN
      RETURN o;
    END IF;
  END LOOP;
END $tutti$;
ALTER FUNCTION tutti.large_oid OWNER TO tutti_owner;
