  {{word}} s OPERATOR(pg_catalog.=) {{table}} THEN
    INSERT INTO tutti.mark SELECT to_slot, to_incarnation, to_seq
      WHERE EXISTS (SELECT FROM tutti.token k WHERE k.token OPERATOR(pg_catalog.=) to_token)
      AND (anyway OR EXISTS (SELECT FROM tutti.capture{{table}} c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current()))
      ON CONFLICT ON CONSTRAINT mark_pkey DO UPDATE SET incarnation = excluded.incarnation, seq = excluded.seq;
    IF FOUND THEN
      IF pg_catalog.current_setting('{{large_setting}}', true) OPERATOR(pg_catalog.=) 'on' THEN
        RETURN QUERY SELECT {{first_row}};
        RETURN QUERY SELECT * FROM tutti.collect_large('tutti.capture{{table}}');
        {{collect_end}}
        RETURN;
      END IF;
      RETURN QUERY SELECT {{first_row}}
        UNION ALL (SELECT c.op, c.ident, c.keys, c.tab, c.img FROM tutti.capture{{table}} c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current() ORDER BY c.n);
      {{collect_end}}
      RETURN;
    END IF;
