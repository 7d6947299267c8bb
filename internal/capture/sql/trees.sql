SELECT ev_class, concat(ev_qual, ev_action) FROM pg_rewrite WHERE oid >= 16384 AND (NOT fresh OR age(xmin) <= 0)
UNION ALL SELECT adrelid, adbin::text FROM pg_attrdef WHERE oid >= 16384 AND (NOT fresh OR age(xmin) <= 0)
UNION ALL SELECT conrelid, conbin::text FROM pg_constraint WHERE conbin IS NOT NULL AND conrelid <> 0 AND oid >= 16384 AND (NOT fresh OR age(xmin) <= 0)
UNION ALL SELECT a.attrelid, k.conbin::text FROM pg_constraint k JOIN pg_attribute a ON a.atttypid = k.contypid WHERE k.conbin IS NOT NULL AND k.contypid <> 0 AND k.oid >= 16384 AND (NOT fresh OR age(k.xmin) <= 0 OR age(a.xmin) <= 0)
UNION ALL SELECT indrelid, concat(indexprs, indpred) FROM pg_index WHERE (indexprs IS NOT NULL OR indpred IS NOT NULL) AND indexrelid >= 16384 AND (NOT fresh OR age(xmin) <= 0)
UNION ALL SELECT polrelid, concat(polqual, polwithcheck) FROM pg_policy WHERE NOT fresh OR age(xmin) <= 0
UNION ALL SELECT tgrelid, tgqual::text FROM pg_trigger WHERE tgqual IS NOT NULL AND NOT tgisinternal AND (NOT fresh OR age(xmin) <= 0)
